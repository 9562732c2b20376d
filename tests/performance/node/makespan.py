"""Two jobs that use their GPU half of the time: how long they take beside one another, and one after the other.

    python -m tests.performance.node.makespan -o makespan.json

A published claim for such a pair is 1 h 20 for two jobs of an hour each, that is 0.67 of the time that they take one after the
other; 0.5 would be perfect. Each job is a process with the real client, on a GPU of its own agent with one lane and default configuration; GPU time and
the time between iterations (data loading) are both simulated by sleeping. Run alone, each job's time is measured, not reckoned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.performance.node.crowd import Crowd, Trained, admit, node_with
from tests.performance.result_file import write_measured

PUBLISHED_RATIO = 80 / 120
HALVES_SECONDS = (0.1, 0.02)
JOB_SECONDS = 7.0


def measure() -> dict[str, Any]:
    """Return both makespans, for long and for short iterations."""
    with node_with(gpus=len(HALVES_SECONDS), lanes=1) as node:
        pairs = []
        for gpu, half_seconds in enumerate(HALVES_SECONDS):
            crowd = admit(node, 2, gpu)
            crowd.open_sessions()
            pairs.append(_compare(crowd, half_seconds))
    return {"published_ratio": round(PUBLISHED_RATIO, 2), "pairs": pairs}


def _compare(crowd: Crowd, half_seconds: float) -> dict[str, Any]:
    options = {
        "iteration_seconds": half_seconds,
        "gap_seconds": half_seconds,
        "iterations": round(JOB_SECONDS / 2 / half_seconds),
    }
    alone = [
        _seconds(Crowd(crowd.node, (pod,), (process,)).train(**options))
        for pod, process in zip(crowd.pods, crowd.processes, strict=True)
    ]
    together = _seconds(crowd.train(**options))
    return {
        "iteration_seconds": half_seconds,
        "gap_seconds": half_seconds,
        "iterations_per_job": options["iterations"],
        "one_after_the_other_seconds": round(sum(alone), 3),
        "shared_seconds": round(together, 3),
        "ratio": round(together / sum(alone), 3),
    }


def _seconds(trained: Sequence[Trained]) -> float:
    began_ns = min(each.began_ns for each in trained)
    return (max(each.ended_ns for each in trained) - began_ns) / 1e9


if __name__ == "__main__":
    write_measured(measure)
