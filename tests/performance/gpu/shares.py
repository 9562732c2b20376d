"""Shares of the time of a real GPU: PyTorch trainings with 60/20/10/10 and 4 × 25 %, in one lane, in a lane each, and sliced by the
driver alone.

All jobs of a case exist all along, and a round measures each way in turn. A job's progress is the number of its iterations a second
over that of the same training alone, in the same run. What jobs do in their first seconds together is not counted: shares are promised
from then on.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tests.performance.node.crowd import Turn
from tests.performance.node.hand_off import hand_offs_of_lane_us
from tests.performance.node.latencies import summary
from tests.support.gpu.driver import nvml
from tests.support.gpu.workstation import Worker, Workstation

GIB = 1 << 30
TIME_SLICING, ONE_LANE, LANES = "time-slicing", "one lane", "lanes"


@dataclass(frozen=True)
class SharesPlan:
    """How much is measured."""

    device: str
    options: tuple[str, ...]
    """Of the training. Alone it has to keep the GPU busy."""

    cases: tuple[tuple[int, ...], ...]
    """The jobs' shares, in percent."""

    rounds: int
    alone_seconds: float
    settle_seconds: float
    train_seconds: float
    """Of a way in a round, after the settling."""

    quantum_milliseconds: int


def plan_for(device: str, memory_bytes: int) -> SharesPlan:
    """Return the plan for a GPU with this much memory. A share of 10 % has to hold a training."""
    if device == "cpu":
        return SharesPlan("cpu", ("--network", "small", "--batch", "4"), ((60, 40),), 1, 0.3, 0.2, 0.8, 10)
    batch = "32" if memory_bytes >= 60 * GIB else "8"
    options = ("--network", "resnet50", "--size", "full", "--batch", batch, "--precision", "bf16")
    return SharesPlan("cuda", options, ((60, 20, 10, 10), (25, 25, 25, 25)), 2, 3.0, 2.0, 12.0, 100)


def measure(device: str) -> dict[str, Any]:
    """Return each job's progress in each way, and the latencies of handing turns over in one lane."""
    gpu = nvml()[0] if device == "cuda" else None
    plan = plan_for(device, gpu["memory_bytes"] if gpu else 0)
    return {
        "gpu": gpu["model"] if gpu else "none: tensors of a CPU, so the figures say nothing about a GPU",
        "options": " ".join(plan.options),
        "seconds_of_a_round": plan.train_seconds,
        "quantum_milliseconds": plan.quantum_milliseconds,
        "rounds": plan.rounds,
        "cases": [_measure_case(plan, shares) for shares in plan.cases],
    }


def _measure_case(plan: SharesPlan, shares: Sequence[int]) -> dict[str, Any]:
    with _ways(plan, shares) as ways:
        made: dict[str, list[list[float]]] = {name: [] for name in ways}
        alone = []
        names = list(ways)
        for number in range(plan.rounds):
            alone.append(_together(ways[TIME_SLICING][:1], plan, plan.alone_seconds)[0])
            first = number % len(names)
            for name in (*names[first:], *names[:first]):
                made[name].append(_together(ways[name], plan, plan.train_seconds))
        rate = statistics.median(alone)
        progress = {
            name: [statistics.fmean(each) / rate for each in zip(*rounds, strict=True)]
            for name, rounds in made.items()
        }
        sliced = sum(progress[TIME_SLICING])
        return {
            "shares_percent": list(shares),
            "iterations_per_second_alone": round(rate, 2),
            "ways": [_figures(name, shares, each, sliced) for name, each in progress.items()],
            "hand_off": _hand_offs(ways[ONE_LANE], plan),
        }


@contextmanager
def _ways(plan: SharesPlan, shares: Sequence[int]) -> Iterator[dict[str, Sequence[Worker]]]:
    """Start the jobs of all ways and warm them up."""
    with ExitStack() as stack:
        turns = {"quantumMilliseconds": plan.quantum_milliseconds}
        several = stack.enter_context(Workstation(plan.device, turns=turns))
        single = stack.enter_context(Workstation(plan.device, turns=turns, lanes={"maxPerGpu": 1}))
        numbered = list(enumerate(shares))
        ways: dict[str, Sequence[Worker]] = {
            TIME_SLICING: [several.plain(f"plain-{number}", *plan.options) for number, _ in numbered],
            ONE_LANE: [single.job(f"one-lane-{number}", share, *plan.options) for number, share in numbered],
            LANES: [several.job(f"lanes-{number}", share, *plan.options) for number, share in numbered],
        }
        for workers in ways.values():
            for worker in workers:
                assert worker.ready
            # Also measures the jobs' memory, so that the lanes are those of the rounds.
            for worker in workers:
                worker.start("train", iterations=15)
            for worker in workers:
                worker.answer()
                worker.do("rest")
        yield ways


def _together(workers: Sequence[Worker], plan: SharesPlan, seconds: float) -> list[float]:
    """Have them train at once; return the iterations of each in a second."""
    for worker in workers:
        worker.start("train", seconds=plan.settle_seconds + seconds, skip_seconds=plan.settle_seconds)
    answers = [worker.answer() for worker in workers]
    for worker in workers:
        worker.do("rest")
    return [
        each["counted_iterations"] / ((each["ended_ns"] - each["counted_from_ns"]) / 1e9) for each in answers
    ]


def _figures(name: str, shares: Sequence[int], progress: Sequence[float], sliced: float) -> dict[str, Any]:
    return {
        "way": name,
        "progress_percent": [round(100 * each, 1) for each in progress],
        "percent_of_share": [
            round(10_000 * each / share, 1) for each, share in zip(progress, shares, strict=True)
        ],
        "sum_percent": round(100 * sum(progress), 1),
        "sum_over_time_slicing": round(sum(progress) / sliced, 3),
    }


def _hand_offs(workers: Sequence[Worker], plan: SharesPlan) -> dict[str, float]:
    """Return how long a lane takes from the end of a job's last iteration to the begin of the next job's first, as the jobs have it."""
    for worker in workers:
        worker.do("watch_turns")
    _together(workers, plan, plan.train_seconds)
    turns = [[Turn(*turn) for turn in worker.do("turns")["turns"]] for worker in workers]
    return summary(hand_offs_of_lane_us(turns))
