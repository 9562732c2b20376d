"""What jobs took alone and beside others: makespan, average JCT, slow-downs, and the two goals. Pure functions of the jobs' times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from laneway.api.training_job_status import ProfileStatus

from tests.performance.sharing.workload import CROWD, CROWD_GPUS, KINDS

PAIR_GOAL, PAIR_AIM = 0.67, 0.55
SLOWDOWN_GOAL_PERCENT = 20.0
JOBS_PER_GPU_GOAL = 1.6


@dataclass(frozen=True, slots=True)
class JobRun:
    """One job in one phase. Times in seconds since the epoch."""

    name: str
    group: str
    kind: str
    steps: int
    submit_seconds: float
    placed_seconds: Sequence[float]
    """Of each attempt."""

    start_seconds: float
    """When its training first began, after its imports."""

    end_seconds: float
    """When its training ended."""

    completed_seconds: float
    """When its pod had ended."""

    cpu_seconds: float
    """Of the training, all attempts."""

    gpus: Sequence[str]
    """The GPU of each attempt."""

    progress: Sequence[tuple[float, int]]
    """Times, and the steps done by then."""

    events: Sequence[str] = field(default=())
    """What else the operator did with it."""

    profile: ProfileStatus | None = None
    """What its node measured of its iterations."""

    @property
    def train_seconds(self) -> float:
        """From its first step to its end; time between two attempts counts."""
        return self.end_seconds - self.start_seconds

    @property
    def jct_seconds(self) -> float:
        """From its submission to its end."""
        return self.completed_seconds - self.submit_seconds


def alone_seconds(runs: Iterable[JobRun]) -> dict[str, float]:
    """Return, by kind, the mean training time of jobs that had their GPU alone."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for run in runs:
        found[run.kind].append(run.train_seconds)
    return {kind: fmean(seconds) for kind, seconds in found.items()}


def phase_figures(runs: Sequence[JobRun], alone: Mapping[str, float]) -> dict[str, Any]:
    """Return the figures of one phase.

    Args:
        runs: its jobs, all of them.
        alone: the training time alone, by kind.
    """
    groups: defaultdict[str, list[JobRun]] = defaultdict(list)
    for run in runs:
        groups[run.group].append(run)
    return {
        "makespan_seconds": _makespan(runs),
        "average_jct_seconds": fmean(run.jct_seconds for run in runs),
        **{name: _group(jobs, alone) for name, jobs in groups.items()},
        "jobs": [_job(run, runs, alone) for run in runs],
    }


def goals(shared: Mapping[str, Any], alone: Mapping[str, Any]) -> dict[str, Any]:
    """Return how far a phase with sharing reaches the goals; the other phase is without."""
    crowd, pair, before = shared[CROWD], shared["50-50"], alone[CROWD]
    return {
        "sharing": shared["sharing"],
        "half_idle_pair_ratio": pair["ratio"],
        "half_idle_pair_steady_ratio": pair["steady_ratio"],
        "pair_goal": PAIR_GOAL,
        "pair_aim": PAIR_AIM,
        "crowd_jobs_per_gpu": crowd["jobs"] / CROWD_GPUS,
        "jobs_per_gpu_goal": JOBS_PER_GPU_GOAL,
        "crowd_mean_slowdown_percent": crowd["mean_slowdown_percent"],
        "slowdown_goal_percent": SLOWDOWN_GOAL_PERCENT,
        "crowd_makespan_ratio": crowd["makespan_seconds"] / before["makespan_seconds"],
        "crowd_average_jct_ratio": crowd["average_jct_seconds"] / before["average_jct_seconds"],
    }


def _group(runs: Sequence[JobRun], alone: Mapping[str, float]) -> dict[str, Any]:
    slowdowns = [_slowdown_percent(run, alone) for run in runs]
    trained_seconds = max(run.end_seconds for run in runs) - min(run.start_seconds for run in runs)
    return {
        "jobs": len(runs),
        "makespan_seconds": _makespan(runs),
        "average_jct_seconds": fmean(run.jct_seconds for run in runs),
        "mean_slowdown_percent": fmean(slowdowns),
        "largest_slowdown_percent": max(slowdowns),
        "ratio": trained_seconds / sum(alone[run.kind] for run in runs),
        "steady_ratio": _steady_ratio(runs, alone),
        "preemptions": sum(len(run.gpus) - 1 for run in runs),
    }


def _makespan(runs: Sequence[JobRun]) -> float:
    return max(run.completed_seconds for run in runs) - min(run.submit_seconds for run in runs)


def _slowdown_percent(run: JobRun, alone: Mapping[str, float]) -> float:
    return 100 * (run.train_seconds / alone[run.kind] - 1)


def _steady_ratio(runs: Sequence[JobRun], alone: Mapping[str, float]) -> float | None:
    """Return the time for the work of two jobs while both train, over that one after the other; None: they never do, or are not two."""
    if len(runs) != 2:
        return None
    begin = max(run.start_seconds for run in runs)
    end = min(run.end_seconds for run in runs)
    if end <= begin:
        return None
    work = sum(_work(run, begin, end) * alone[run.kind] for run in runs)
    return (end - begin) / work if work else None


def _work(run: JobRun, begin: float, end: float) -> float:
    """Return the part of a job's steps that it did in a time."""
    return (_step_at(run, end) - _step_at(run, begin)) / run.steps


def _step_at(run: JobRun, at: float) -> float:
    """Return the steps done at a time, interpolated."""
    before_seconds, before = run.progress[0]
    for seconds, step in run.progress:
        if seconds >= at:
            span = seconds - before_seconds
            return before if span <= 0 else before + (step - before) * (at - before_seconds) / span
        before_seconds, before = seconds, step
    return before


def _job(run: JobRun, runs: Sequence[JobRun], alone: Mapping[str, float]) -> dict[str, Any]:
    first_seconds = min(each.submit_seconds for each in runs)
    beside = [
        other.name
        for other in runs
        if other is not run
        and set(other.gpus) & set(run.gpus)
        and min(other.end_seconds, run.end_seconds) > max(other.start_seconds, run.start_seconds)
    ]
    return {
        "job": run.name,
        "kind": run.kind,
        "gpu_percent": KINDS[run.kind].gpu_percent,
        "submit_seconds": run.submit_seconds - first_seconds,
        "placed_seconds": [each - first_seconds for each in run.placed_seconds],
        "start_seconds": run.start_seconds - first_seconds,
        "end_seconds": run.end_seconds - first_seconds,
        "jct_seconds": run.jct_seconds,
        "alone_seconds": alone[run.kind],
        "slowdown_percent": _slowdown_percent(run, alone),
        "cpu_percent": 100 * run.cpu_seconds / run.train_seconds,
        "gpus": list(run.gpus),
        "beside": beside,
        "events": list(run.events),
    }
