"""What a simulation says: one set of figures, and how they are laid out for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from laneway.simulator.simulation import Simulation


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one policy on one trace. Job completion times (JCT) count from submission to finish."""

    policy: str
    placement: str
    jobs: int
    """Finished jobs: all averages are over these."""

    unfinished_jobs: int
    """Jobs that never finished: they never fit, or the simulation was interrupted."""

    average_jct_seconds: float
    median_jct_seconds: float
    p95_jct_seconds: float
    p99_jct_seconds: float
    makespan_seconds: float
    """From the first submission to the last finish."""

    average_queueing_seconds: float
    """JCT less the time in which the job ran: waiting, starting and leaving."""

    preemptions: int
    utilization_ratio: float
    """GPU time that was held, of what the cluster had until the last finish."""

    decisions: int
    decision_seconds: float
    """Time on the clock on the wall that all decisions took."""

    unfinished: tuple[str, ...] = ()
    """Of the first ten unfinished jobs: why."""


COLUMNS = (
    ("POLICY", "policy"),
    ("PLACEMENT", "placement"),
    ("JOBS", "jobs"),
    ("UNFINISHED", "unfinished_jobs"),
    ("AVG JCT", "average_jct_seconds"),
    ("MEDIAN", "median_jct_seconds"),
    ("P95", "p95_jct_seconds"),
    ("P99", "p99_jct_seconds"),
    ("MAKESPAN", "makespan_seconds"),
    ("AVG QUEUED", "average_queueing_seconds"),
    ("PREEMPTIONS", "preemptions"),
    ("UTILIZATION", "utilization_ratio"),
    ("DECIDING", "decision_seconds"),
)


def report(simulation: Simulation, *, policy: str, placement: str, gpus: int) -> Report:
    """Return the figures of a simulation, as far as it got.

    Args:
        simulation: run to its end, or interrupted.
        policy: the order policy's name.
        placement: the placement policy's name.
        gpus: how many the cluster has.
    """
    done = [run for run in simulation.runs.values() if run.finish_seconds is not None]
    completion = sorted((run.finish_seconds or 0.0) - run.job.submit_seconds for run in done)
    queued = [(run.finish_seconds or 0.0) - run.job.submit_seconds - run.job.duration_seconds for run in done]
    first = min((run.job.submit_seconds for run in simulation.runs.values()), default=0.0)
    last = max((run.finish_seconds or 0.0 for run in done), default=first)
    return Report(
        policy=policy,
        placement=placement,
        jobs=len(done),
        unfinished_jobs=simulation.submitted - len(done),
        average_jct_seconds=_mean(completion),
        median_jct_seconds=percentile(completion, 50),
        p95_jct_seconds=percentile(completion, 95),
        p99_jct_seconds=percentile(completion, 99),
        makespan_seconds=last - first,
        average_queueing_seconds=_mean(queued),
        preemptions=sum(run.preemptions for run in simulation.runs.values()),
        utilization_ratio=simulation.used_gpu_seconds / (gpus * (last - first)) if last > first else 0.0,
        decisions=simulation.decisions,
        decision_seconds=simulation.decision_seconds,
        unfinished=tuple(f"{key}: {reason.message}" for key, reason in list(simulation.waiting.items())[:10]),
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return a percentile of sorted values, interpolated between neighbours; 0 where there are none."""
    if not ordered:
        return 0.0
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def as_json(reports: Iterable[Report]) -> list[dict[str, Any]]:
    """Return the reports as JSON's own types, one object a policy."""
    return [asdict(item) for item in reports]


def as_table(reports: Iterable[Report]) -> str:
    """Return the reports as a table for people; times in seconds."""
    rows = [[title for title, _ in COLUMNS]]
    for item in reports:
        rows.append([_cell(getattr(item, field)) for _, field in COLUMNS])
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < 2 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if value < 10 else f"{value:,.1f}"
    return str(value)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
