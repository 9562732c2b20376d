"""The duration of one decision: order, place, preempt and check, at 1,000 to 30,000 jobs on as many GPUs.

    python -m tests.performance.decision_speed -o speed.json

A cluster of nodes with 8 GPUs each holds as many waiting and running jobs as GPUs: four of ten request a share of one, three a
whole one, two are gangs of single GPUs, one is a gang with several GPUs per worker. Every ten seconds of simulated time, new jobs
replace finished ones, jobs move between queues, and gangs are preempted. A decision that preempts is followed by another at once, as
in the simulator and in the operator; each is measured in processor time. The cold decision is the first one of a new scheduler.

Python's collector of cyclic garbage does not run inside a decision. Like the operator, the benchmark runs it between two decisions.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import time
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path

from laneway.scheduling import (
    GPU,
    Decision,
    Demand,
    Job,
    JobState,
    Node,
    Policies,
    Scheduler,
    WorkerPlacement,
    policies,
)

SIZES = (1_000, 3_000, 10_000, 30_000)
STEP_SECONDS = 10.0
WARM_UP_DECISIONS = 30
MEAN_RUN_SECONDS = 20_000.0
SHARES_PERCENT = (10, 20, 25, 33, 40, 50, 75)
GPUS_PER_NODE = 8
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Speed:
    """The decisions at one size. Times on the processor's clock."""

    jobs: int
    gpus: int
    policy: str
    decisions: int
    cold_milliseconds: float
    p50_milliseconds: float
    p99_milliseconds: float
    largest_milliseconds: float
    started: int
    preempted: int
    waiting: int
    """Jobs that wait at the end."""


class Churn:
    """A cluster on which jobs come and go, and a scheduler that observes them."""

    def __init__(self, gpus: int, chosen: Policies, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self._scheduler = Scheduler(_nodes(gpus), chosen)
        self._most_jobs = gpus
        self._numbers = count()
        self._jobs: dict[str, Job] = {}
        self._ends: dict[str, float] = {}
        self.now_seconds = 0.0
        self.started = self.preempted = 0
        self._submit()

    @property
    def waiting(self) -> int:
        """Jobs that hold nothing."""
        return len(self._jobs) - len(self._ends)

    def timed_decision(self) -> float:
        """Decide and apply; advance the clock unless a job was preempted. Return the processor seconds of the decision."""
        gc.collect()
        gc.disable()
        began = time.process_time()
        decision = self._scheduler.decide(self.now_seconds)
        took_seconds = time.process_time() - began
        gc.enable()
        self._carry_out(decision)
        if not decision.preemptions:
            self._go_on()
        return took_seconds

    def _go_on(self) -> None:
        self.now_seconds += STEP_SECONDS
        for key in [key for key, end in self._ends.items() if end <= self.now_seconds]:
            del self._ends[key], self._jobs[key]
            self._scheduler.forget(key)
        self._submit()

    def _submit(self) -> None:
        while len(self._jobs) < self._most_jobs:
            number = next(self._numbers)
            job = Job(f"ns{number % 7}/j{number}", self._demand(), self.now_seconds + number * 1e-6)
            self._observe(job)

    def _demand(self) -> Demand:
        kind = self._random.random()
        if kind < 0.4:
            return Demand(share_percent=self._random.choice(SHARES_PERCENT))
        if kind < 0.7:
            return Demand()
        if kind < 0.9:
            return Demand(workers=self._random.choice((2, 4, 8)))
        return Demand(workers=self._random.choice((2, 4)), gpus_per_worker=self._random.choice((4, 8)))

    def _carry_out(self, decision: Decision) -> None:
        for key, placement in decision.starts.items():
            self._start(self._jobs[key], placement)
        for key in decision.preemptions:
            job = self._jobs[key]
            del self._ends[key]
            self._observe(
                replace(
                    job,
                    state=JobState.WAITING,
                    placement=(),
                    attained_service_gpu_seconds=job.service_gpu_seconds(self.now_seconds),
                    executed_seconds=job.ran_seconds(self.now_seconds),
                    as_of_seconds=None,
                    waiting_since_seconds=self.now_seconds,
                )
            )
        self.started += len(decision.starts)
        self.preempted += len(decision.preemptions)

    def _start(self, job: Job, placement: tuple[WorkerPlacement, ...]) -> None:
        begins = self.now_seconds == 0  # of those that are there from the start, some have run for long
        served = self._random.expovariate(1 / 5000) if begins else job.attained_service_gpu_seconds
        self._ends[job.key] = self.now_seconds + self._random.expovariate(1 / MEAN_RUN_SECONDS)
        self._observe(
            replace(
                job,
                state=JobState.RUNNING,
                placement=placement,
                started_seconds=self.now_seconds,
                as_of_seconds=self.now_seconds,
                attained_service_gpu_seconds=served,
            )
        )

    def _observe(self, job: Job) -> None:
        self._jobs[job.key] = job
        self._scheduler.observe(job)


def measure(gpus: int, decisions: int, policy: str | None = None) -> Speed:
    """Time decisions at one size.

    Args:
        gpus: and as many jobs.
        decisions: timed after the warm-up.
        policy: of the order stage, or a preset; None: the operator's default.
    """
    chosen = policies(order=policy)
    churn = Churn(gpus, chosen)
    cold_seconds = churn.timed_decision()
    for _ in range(WARM_UP_DECISIONS):
        churn.timed_decision()
    churn.started = churn.preempted = 0
    times = sorted(churn.timed_decision() for _ in range(decisions))
    return Speed(
        jobs=gpus,
        gpus=gpus,
        policy=policy or type(chosen.order).__name__,
        decisions=decisions,
        cold_milliseconds=1e3 * cold_seconds,
        p50_milliseconds=1e3 * times[len(times) // 2],
        p99_milliseconds=1e3 * times[min(len(times) - 1, math.ceil(0.99 * len(times)) - 1)],
        largest_milliseconds=1e3 * times[-1],
        started=churn.started,
        preempted=churn.preempted,
        waiting=churn.waiting,
    )


def growth_exponent(speeds: list[Speed], field: str) -> float:
    """Return k of the power law time ~ size^k that fits a field best (least squares on logarithms)."""
    points = [(math.log(speed.gpus), math.log(getattr(speed, field))) for speed in speeds]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


def _nodes(gpus: int) -> list[Node]:
    return [
        Node(
            f"n{number:05d}",
            tuple(
                GPU(f"n{number:05d}-{index}", f"n{number:05d}", index, "A100", 80 * GIB, 79 * GIB)
                for index in range(GPUS_PER_NODE)
            ),
        )
        for number in range(gpus // GPUS_PER_NODE)
    ]


def main() -> None:
    """Measure at each size, print, and write the figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--decisions", type=int, default=300)
    parser.add_argument("--policy", default=None)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    speeds = []
    for size in arguments.sizes:
        speeds.append(measure(size, arguments.decisions, arguments.policy))
        print(json.dumps(asdict(speeds[-1])), flush=True)
    found = {
        "speeds": [asdict(speed) for speed in speeds],
        "growth_exponent_p50": growth_exponent(speeds, "p50_milliseconds") if len(speeds) > 1 else None,
        "growth_exponent_cold": growth_exponent(speeds, "cold_milliseconds") if len(speeds) > 1 else None,
    }
    print(f"p50 grows with the size to the power of {found['growth_exponent_p50']}")
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
