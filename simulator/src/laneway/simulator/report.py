"""The figures of a simulation, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

from laneway.api.job_names import sentence_in_full
from laneway.scheduling import Demand
from laneway.simulator.simulation import Simulation
from laneway.simulator.trace import TraceJob
from laneway.simulator.units import number_text, time_unit


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one policy on one trace. A job completion time (JCT) is the time from submission to finish."""

    policy: str
    placement: str
    jobs: int
    """Finished jobs; all averages are over these."""

    unfinished_jobs: int
    """Jobs that never finished: they never fit, or the simulation was interrupted."""

    average_jct_seconds: float
    median_jct_seconds: float
    p95_jct_seconds: float
    p99_jct_seconds: float
    makespan_seconds: float
    """From the first submission to the last finish."""

    average_queueing_seconds: float
    """JCT minus the time in which the job ran: waiting, starting, leaving and paused."""

    preemptions: int
    """All of them: pauses, offloads and evictions."""

    evictions: int
    """Evictions, which cost a checkpoint and a restart; restarts with a different number of workers included."""

    migrations: int
    """Restarts on a node that the job was not on before."""

    failures: int
    """Attempts that ended because a worker or a node failed."""

    rollbacks: int
    """Attempts that did not start as a whole."""

    lost_work_ratio: float
    """Work done and lost, at evictions and failures, as a ratio of the finished jobs' work, both in the trace's GPU time."""

    utilization_ratio: float
    """Held GPU time as a ratio of the cluster's GPU time until the last finish. A GPU that several jobs share counts once."""

    work_ratio: float
    """Work of the finished jobs, in the trace's GPU time, as a ratio of the cluster's GPU time until the last finish. Above 1: jobs that
    shared GPUs did more together than one after the other."""

    fragmentation_ratio: float
    """Of the GPU capacity that was free while jobs waited: the part that the trace's mean worker could not use where it was
    (fragmentation gradient descent, ATC'23, section 3)."""

    jain_fairness_ratio: float
    """Jain's index over the slowdowns (JCT over duration) of the jobs: 1 if all are slowed down alike, 1/n if only one is."""

    decisions: int
    decision_seconds: float
    """Wall-clock time of all decisions."""

    unfinished: tuple[str, ...] = ()
    """The reasons of the first ten unfinished jobs."""


TABLE_WIDTH = 100
"""Characters of a line of the table; policies that find no room follow below."""

_Format = Callable[[Sequence[Any]], list[str]]


def _texts(values: Sequence[Any]) -> list[str]:
    return [str(value) for value in values]


def _numbers(values: Sequence[Any]) -> list[str]:
    return [number_text(float(value)) for value in values]


def _percents(values: Sequence[Any]) -> list[str]:
    return [f"{100 * value:.1f} %" for value in values]


def _times(values: Sequence[Any]) -> list[str]:
    """Return times in one unit, so that they can be compared: the one that suits the shortest of them."""
    unit_seconds, unit = time_unit(min((value for value in values if value > 0), default=0.0))
    return [f"{number_text(value / unit_seconds)} {unit}" for value in values]


_FIGURES: tuple[tuple[str, str, _Format], ...] = (
    ("policy", "policy", _texts),
    ("placement", "placement", _texts),
    ("jobs", "jobs", _texts),
    ("unfinished", "unfinished_jobs", _texts),
    ("average JCT", "average_jct_seconds", _times),
    ("median JCT", "median_jct_seconds", _times),
    ("p95 JCT", "p95_jct_seconds", _times),
    ("p99 JCT", "p99_jct_seconds", _times),
    ("makespan", "makespan_seconds", _times),
    ("average queueing", "average_queueing_seconds", _times),
    ("preemptions", "preemptions", _texts),
    ("utilization", "utilization_ratio", _percents),
    ("fragmented", "fragmentation_ratio", _percents),
    ("fairness", "jain_fairness_ratio", _numbers),
    ("deciding", "decision_seconds", _times),
)
"""Title, field and format of each line of the table."""


def report(simulation: Simulation, *, policy: str, placement: str) -> Report:
    """Return the figures of a simulation, complete or interrupted.

    Args:
        simulation: run to its end, or interrupted.
        policy: the order policy's name.
        placement: the placement policy's name.
    """
    runs = simulation.runs.values()
    done = [(run, run.finish_seconds) for run in runs if run.finish_seconds is not None]
    completion = sorted(finish - run.job.submit_seconds for run, finish in done)
    first = min((run.job.submit_seconds for run in runs), default=0.0)
    last = max((finish for _, finish in done), default=first)
    meter = simulation.meter
    capacity_gpu_seconds = meter.gpus * (last - first)
    work_gpu_seconds = sum(run.job.duration_seconds * gpus_of(run.job.demand) for run, _ in done)
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
        average_queueing_seconds=_mean(
            [finish - run.job.submit_seconds - run.executed_seconds for run, finish in done]
        ),
        preemptions=sum(run.preemptions for run in runs),
        evictions=sum(run.evictions for run in runs),
        migrations=sum(run.migrations for run in runs),
        failures=sum(run.failures for run in runs),
        rollbacks=sum(run.rollbacks for run in runs),
        lost_work_ratio=_ratio(
            sum(run.lost_seconds * gpus_of(run.job.demand) for run in runs), work_gpu_seconds
        ),
        utilization_ratio=_ratio(simulation.held_until_finish_gpu_seconds, capacity_gpu_seconds),
        work_ratio=_ratio(work_gpu_seconds, capacity_gpu_seconds),
        fragmentation_ratio=_ratio(meter.contended_fragment_gpu_seconds, meter.contended_free_gpu_seconds),
        jain_fairness_ratio=jain_ratio([slowdown(run.job, finish) for run, finish in done]),
        decisions=simulation.decisions,
        decision_seconds=simulation.decision_seconds,
        unfinished=tuple(
            f"{key}: {sentence_in_full(reason.message)}"
            for key, reason in islice(simulation.waiting.items(), 10)
        ),
    )


def gpus_of(demand: Demand) -> float:
    """Return the GPUs that a job requests, in fractions; a request for memory or for an exclusive GPU counts as whole."""
    whole = demand.exclusive or demand.memory_bytes is not None
    return demand.gpus * (1.0 if whole else demand.share_percent / 100)


def slowdown(job: TraceJob, finish_seconds: float) -> float:
    """Return a job's completion time as a multiple of its undisturbed duration."""
    return (finish_seconds - job.submit_seconds) / job.duration_seconds


def jain_ratio(values: Sequence[float]) -> float:
    """Return Jain's fairness index (DEC TR-301, 1984): 1 if all values are equal, 1/n if one of n is not 0; 1 for no values."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return a percentile of sorted values, interpolated between neighbors; 0 for no values."""
    if not ordered:
        return 0.0
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def as_json(reports: Iterable[Report]) -> list[dict[str, Any]]:
    """Return the reports as JSON types, one object per policy."""
    return [asdict(item) for item in reports]


def figures(reports: Sequence[Report]) -> list[list[str]]:
    """Return the lines of the table: a figure's title, and its value with its unit for each policy."""
    return [
        [title, *format_values([getattr(item, field) for item in reports])]
        for title, field, format_values in _FIGURES
    ]


def as_table(reports: Sequence[Report]) -> str:
    """Return the figures, one policy a column, within ``TABLE_WIDTH`` characters."""
    lines = figures(reports)
    titles_width = max(len(line[0]) for line in lines)
    widths = [max(len(line[column]) for line in lines) for column in range(1, len(lines[0]))]
    blocks, first = [], 0
    while first < len(widths):
        last, width = first + 1, titles_width + 2 + widths[first]
        while last < len(widths) and width + 2 + widths[last] <= TABLE_WIDTH:
            width += 2 + widths[last]
            last += 1
        blocks.append(
            "\n".join(
                "  ".join(
                    [line[0].ljust(titles_width)]
                    + [line[1 + column].rjust(widths[column]) for column in range(first, last)]
                )
                for line in lines
            )
        )
        first = last
    return "\n\n".join(blocks)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
