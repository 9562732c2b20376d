"""Measures what a gang among small jobs takes, against the bounds of ``docs/scheduling.md``.

    python -m tests.performance.liveness -o liveness.json

64 GPUs. One-GPU jobs arrive at random (Poisson) and load them to a part of their capacity; a gang is submitted after an hour. Each
case is run with the default policy, and with ``tiresias-las`` beside it, which guarantees nothing.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from laneway.scheduling import policies

from tests.performance.result_file import write_measured
from tests.support.workloads import HOUR, MINUTE, a_job, simulated, stream

GPUS = 64
NODES = "8x8"
WORK_HOURS = 10.0
EVICTION_SECONDS = 50.0
THRASH = tuple((load, GPUS, 5 * MINUTE, 1.3) for load in (0.008, 0.016, 0.039))
STARVATION = tuple(
    (load, width, 20 * MINUTE, 3.0) for load in (0.5, 0.7, 0.8, 0.95) for width in (1, 4, 16, 64)
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One gang beside one stream of small jobs."""

    load: float
    width: int
    small_seconds: float
    policy: str
    completion_hours: float | None
    """None: it had not ended after twice the bound."""

    bound_hours: float
    evictions: int
    lost_percent: float
    """Of the gang's run time, by its evictions."""

    small_mean_seconds: float
    """Mean completion time of the small jobs that ended."""

    small_longest_seconds: float


def outcome(load: float, width: int, small_seconds: float, factor: float, policy: str) -> Outcome:
    """Simulate one case."""
    bound = factor * WORK_HOURS * HOUR / (1 - load)
    simulation = simulated(
        a_job("gang", WORK_HOURS * HOUR, gpus=width, submit=HOUR),
        *stream(load, GPUS, small_seconds, 2 * bound + HOUR),
        nodes=NODES,
        until_done="gang",
        until_seconds=2 * bound + HOUR,
        chosen=policies(order=policy),
    )
    gang = simulation.runs["ns/gang"]
    small = [
        run.finish_seconds - run.job.submit_seconds
        for run in simulation.runs.values()
        if run is not gang and run.finish_seconds is not None
    ]
    return Outcome(
        load=load,
        width=width,
        small_seconds=small_seconds,
        policy=policy,
        completion_hours=None if gang.finish_seconds is None else (gang.finish_seconds - HOUR) / HOUR,
        bound_hours=bound / HOUR,
        evictions=gang.evictions,
        lost_percent=100 * gang.evictions * EVICTION_SECONDS / max(1.0, gang.executed_seconds),
        small_mean_seconds=sum(small) / len(small),
        small_longest_seconds=max(small),
    )


def measure() -> list[dict[str, Any]]:
    """Run every case under both policies."""
    found = []
    for case in (*THRASH, *STARVATION):
        for policy in ("multilevel-las", "tiresias-las"):
            found.append(asdict(outcome(*case, policy)))
            print(found[-1], flush=True)
    return found


if __name__ == "__main__":
    write_measured(measure)
