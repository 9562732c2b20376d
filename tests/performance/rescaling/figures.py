"""What became of the jobs of a phase: JCT, makespan, and the rescales with their costs. Pure functions of the jobs' times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any


@dataclass(frozen=True, slots=True)
class Rescale:
    """One restart with another number of workers, as the job's status had it last."""

    attempt: int
    """That was stopped."""

    from_workers: int
    to_workers: int
    """0: the policy gave the job none for a while."""

    cost_seconds: float | None
    """Without training, the wait for GPUs not counted; None: the next attempt did not start."""


@dataclass(frozen=True, slots=True)
class JobRun:
    """One job in one phase. Times in seconds since the epoch."""

    name: str
    gang: bool
    submit_seconds: float
    completed_seconds: float
    rescales: Sequence[Rescale] = ()
    world_sizes: Sequence[int] = ()
    """With which it trained, one after another."""

    preemptions: int = 0
    accuracy: float | None = None
    """None: a short job."""

    repeated_steps: int = 0
    """That were trained more than once."""

    @property
    def jct_seconds(self) -> float:
        """From its submission to its end."""
        return self.completed_seconds - self.submit_seconds


def phase_figures(runs: Sequence[JobRun]) -> dict[str, Any]:
    """Return the figures of one phase."""
    gangs, short = [run for run in runs if run.gang], [run for run in runs if not run.gang]
    rescales = [rescale for run in gangs for rescale in run.rescales]
    costs = [rescale.cost_seconds for rescale in rescales if rescale.cost_seconds is not None]
    first_seconds = min(run.submit_seconds for run in runs)
    return {
        "makespan_seconds": max(run.completed_seconds for run in runs) - first_seconds,
        "average_jct_seconds": fmean(run.jct_seconds for run in runs),
        "gangs_average_jct_seconds": fmean(run.jct_seconds for run in gangs),
        "short_average_jct_seconds": fmean(run.jct_seconds for run in short),
        "rescales": len(rescales),
        "preemptions": sum(run.preemptions for run in runs),
        "mean_rescale_cost_seconds": fmean(costs) if costs else None,
        "repeated_steps": sum(run.repeated_steps for run in gangs),
        "least_accuracy": min(run.accuracy or 0.0 for run in gangs),
        "jobs": [
            {
                "job": run.name,
                "submit_seconds": run.submit_seconds - first_seconds,
                "jct_seconds": run.jct_seconds,
                "world_sizes": list(run.world_sizes),
                "rescales": [asdict(rescale) for rescale in run.rescales],
                "accuracy": run.accuracy,
            }
            for run in runs
        ],
    }
