"""The duration of what the operator asks of the scheduler in one cycle, at 1,000 to 10,000 jobs on as many GPUs.

    python -m tests.performance.decision_speed -o speed.json

One cycle, as in ``operator/cycle``: the changed jobs are reported, a decision is made with at most ``startsPerCycle`` starts, and
the reasons to wait are explained where the operator would (at its pace, and whenever a job is preempted). All of it is timed on the
wall clock, with Python's collector of cyclic garbage as Python sets it.

A cluster of nodes with 8 GPUs each, of three models, holds as many waiting and running jobs as GPUs: four of ten request a share of
one, three a whole one, two are gangs of single GPUs, one is a gang with several GPUs per worker. One of five accepts one model only,
one of five has a node selector, one of fifty keeps away from the nodes where it failed. Each job has a profile of its own. Every
ten seconds of simulated time, preempted jobs leave their GPUs, new jobs replace finished ones, and jobs move between queues. A
decision that preempts, or that could start more jobs, is followed by another at once, as in the operator. Cycles are timed in the
steady state, after the cluster has filled up; the cold one is the first of a new scheduler. Those in between are reported apart: the
jobs that came together become preemptible together. With *shared memory*, GPUs offer 200 percent, so each start depends on the
profiles of the jobs there.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path

from laneway.operator.pacing import explain_interval_seconds
from laneway.scheduling import (
    GPU,
    Decision,
    Demand,
    Job,
    JobState,
    Node,
    Policies,
    Profile,
    Scheduler,
    WorkerPlacement,
    policies,
)
from laneway.scheduling.config.operator_config import CycleConfig
from laneway.scheduling.model.snapshot import StageSeconds

SIZES = (1_000, 3_000, 10_000)
STEP_SECONDS = 10.0
WARM_UP_SECONDS = 4000.0
"""All jobs come at once at the start, so for some time many may be preempted at the same moment. From about 3,000 s on, as many wait as
later."""

MEAN_RUN_SECONDS = 20_000.0
SHARES_PERCENT = (10, 20, 25, 33, 40, 50, 75)
GPUS_PER_NODE = 8
ZONES = 4
GIB = 2**30
MODELS = (("T4", 16 * GIB), ("A100", 80 * GIB), ("H100", 80 * GIB))
SHARED_MEMORY_PERCENT = 200


@dataclass(frozen=True, slots=True)
class Speed:
    """The cycles at one size. Times on the wall clock, except where noted."""

    jobs: int
    gpus: int
    policy: str
    shared_memory: bool
    cycles: int
    explained: int
    """Cycles that explained why jobs wait."""

    cold_milliseconds: float
    p50_milliseconds: float
    p99_milliseconds: float
    largest_milliseconds: float
    decision_p99_milliseconds: float
    """Without the explanations."""

    uncollected_p99_milliseconds: float
    """Without the time of the collector, which the operator lets wait during a cycle."""

    processor_p99_milliseconds: float
    """On the processor's clock: without the time in which other work had the core."""

    filling_p99_milliseconds: float
    """Of the cycles before the steady state, without the cold one."""

    filling_largest_milliseconds: float
    started: int
    preempted: int
    waiting: int
    """Jobs that wait at the end."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """The time that one cycle took."""

    seconds: float
    decision_seconds: float
    collector_seconds: float
    processor_seconds: float
    explained: bool


class Collector:
    """How long Python's collector of cyclic garbage has run."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0
        gc.callbacks.append(self._note)

    def stop(self) -> None:
        """Count no further."""
        gc.callbacks.remove(self._note)

    def _note(self, phase: str, info: object) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self.seconds += time.perf_counter() - self._began


class Churn:
    """A cluster on which jobs come and go, and a scheduler that is told what the operator would tell it."""

    def __init__(self, gpus: int, chosen: Policies, *, shared_memory: bool, seed: int = 1) -> None:
        self.collector = Collector()
        self._random = random.Random(seed)
        self._nodes = _nodes(gpus, SHARED_MEMORY_PERCENT if shared_memory else 100, self._random)
        self._outside = _outside_each_zone(self._nodes)
        self._scheduler = Scheduler(self._nodes, chosen)
        self._most_jobs = gpus
        self._numbers = count()
        self._jobs: dict[str, Job] = {}
        self._ends: dict[str, float] = {}
        self._changed: dict[str, Job] = {}
        self._avoided: dict[str, frozenset[str]] = {}
        self._ended: list[str] = []
        self._terminating: list[str] = []
        self._explain_again_seconds = -math.inf
        self.now_seconds = 0.0
        self.started = self.preempted = 0
        self._submit()

    @property
    def waiting(self) -> int:
        """Jobs that hold nothing."""
        return sum(job.state is JobState.WAITING for job in self._jobs.values())

    def cycle(self) -> Cycle:
        """Report the changes, decide, and explain if it is time; then apply the decision, and advance the clock if it is complete."""
        most_starts = CycleConfig().starts_per_cycle
        self.collector.seconds = 0.0
        processor_began = time.process_time()
        began = time.perf_counter()
        self._report()
        decision = self._scheduler.decide(self.now_seconds, most_starts)
        self._scheduler.requeued()
        decided = time.perf_counter()
        explains = bool(decision.preemptions) or self.now_seconds >= self._explain_again_seconds
        if explains:
            waiting = self._scheduler.explain(decision, self.now_seconds)
            self._explain_again_seconds = self.now_seconds + explain_interval_seconds(len(waiting))
        explained = time.perf_counter()
        if not decision.truncated:
            self._scheduler.next_decision_seconds(self.now_seconds)
        ended = time.perf_counter()
        processor_seconds = time.process_time() - processor_began
        collector_seconds = self.collector.seconds
        self._carry_out(decision)
        if not decision.preemptions and not decision.truncated:
            self._go_on()
        decision_seconds = ended - began - (explained - decided)
        return Cycle(ended - began, decision_seconds, collector_seconds, processor_seconds, explains)

    def _report(self) -> None:
        """Tell the scheduler what has changed since the last cycle."""
        for key in self._ended:
            self._scheduler.forget(key)
        for job in self._changed.values():
            self._scheduler.observe(job)
        for key, nodes in self._avoided.items():
            self._scheduler.avoid(key, nodes)
        self._ended, self._changed, self._avoided = [], {}, {}

    def _go_on(self) -> None:
        self.now_seconds += STEP_SECONDS
        for key in self._terminating:
            self._change(
                replace(
                    self._jobs[key],
                    state=JobState.WAITING,
                    placement=(),
                    waiting_since_seconds=self.now_seconds,
                )
            )
        self._terminating = []
        for key in [key for key, end in self._ends.items() if end <= self.now_seconds]:
            del self._ends[key], self._jobs[key]
            self._changed.pop(key, None)  # it is gone, whatever was to be reported of it
            self._ended.append(key)
        self._submit()

    def _submit(self) -> None:
        while len(self._jobs) < self._most_jobs:
            number = next(self._numbers)
            key, created_seconds = f"ns{number % 7}/j{number}", self.now_seconds + number * 1e-6
            self._change(Job(key, self._demand(), created_seconds, profile=self._profile()))
            kind = self._random.random()
            if kind < 0.2:
                self._avoided[key] = self._random.choice(self._outside)
            elif kind < 0.22:
                self._avoided[key] = frozenset(node.name for node in self._random.sample(self._nodes, 2))

    def _demand(self) -> Demand:
        kind = self._random.random()
        models = frozenset({self._random.choice(MODELS)[0]}) if self._random.random() < 0.2 else frozenset()
        if kind < 0.4:
            return Demand(share_percent=self._random.choice(SHARES_PERCENT), models=models)
        if kind < 0.7:
            return Demand(models=models)
        if kind < 0.9:
            return Demand(workers=self._random.choice((2, 4, 8)), models=models)
        workers, gpus_per_worker = self._random.choice((2, 4)), self._random.choice((4, 8))
        return Demand(workers=workers, gpus_per_worker=gpus_per_worker, models=models)

    def _profile(self) -> Profile:
        """Return the profile of a job; no two are equal."""
        stages = StageSeconds(*(self._random.uniform(0.0, 0.3) for _ in range(4)))
        model_bytes = self._random.randrange(GIB // 4, 6 * GIB)
        return Profile(
            persistent_bytes=self._random.randrange(GIB, 12 * GIB),
            ephemeral_bytes=self._random.randrange(GIB, 40 * GIB),
            iteration_seconds=sum(stages),
            model_bytes=model_bytes,
            largest_tensor_bytes=self._random.randrange(model_bytes),
            stages=stages,
        )

    def _carry_out(self, decision: Decision) -> None:
        for key, placement in decision.starts.items():
            self._start(self._jobs[key], placement)
        for key in decision.preemptions:
            job = self._jobs[key]
            del self._ends[key]
            self._terminating.append(key)
            self._change(
                replace(
                    job,
                    state=JobState.TERMINATING,
                    attained_service_gpu_seconds=job.service_gpu_seconds(self.now_seconds),
                    executed_seconds=job.ran_seconds(self.now_seconds),
                    as_of_seconds=None,
                )
            )
        self.started += len(decision.starts)
        self.preempted += len(decision.preemptions)

    def _start(self, job: Job, placement: tuple[WorkerPlacement, ...]) -> None:
        begins = self.now_seconds == 0  # of those that are there from the start, some have run for long
        served = self._random.expovariate(1 / 5000) if begins else job.attained_service_gpu_seconds
        self._ends[job.key] = self.now_seconds + self._random.expovariate(1 / MEAN_RUN_SECONDS)
        self._change(
            replace(
                job,
                state=JobState.RUNNING,
                placement=placement,
                started_seconds=self.now_seconds,
                as_of_seconds=self.now_seconds,
                attained_service_gpu_seconds=served,
            )
        )

    def _change(self, job: Job) -> None:
        self._jobs[job.key] = self._changed[job.key] = job


def measure(gpus: int, cycles: int, policy: str | None = None, *, shared_memory: bool = False) -> Speed:
    """Time cycles at one size.

    Args:
        gpus: and as many jobs.
        cycles: timed after the warm-up.
        policy: of the order stage, or a preset; None: the operator's default.
        shared_memory: whether GPUs are overcommitted.
    """
    chosen = policies(order=policy)
    churn = Churn(gpus, chosen, shared_memory=shared_memory)
    cold = churn.cycle()
    filling = []
    while churn.now_seconds < WARM_UP_SECONDS:
        filling.append(churn.cycle().seconds)
    filling.sort()
    churn.started = churn.preempted = 0
    timed = [churn.cycle() for _ in range(cycles)]
    churn.collector.stop()
    times = sorted(cycle.seconds for cycle in timed)
    return Speed(
        jobs=gpus,
        gpus=gpus,
        policy=policy or type(chosen.order).__name__,
        shared_memory=shared_memory,
        cycles=cycles,
        explained=sum(cycle.explained for cycle in timed),
        cold_milliseconds=1e3 * cold.seconds,
        p50_milliseconds=1e3 * _quantile(times, 0.5),
        p99_milliseconds=1e3 * _quantile(times, 0.99),
        largest_milliseconds=1e3 * times[-1],
        decision_p99_milliseconds=1e3 * _quantile(sorted(cycle.decision_seconds for cycle in timed), 0.99),
        uncollected_p99_milliseconds=1e3
        * _quantile(sorted(cycle.seconds - cycle.collector_seconds for cycle in timed), 0.99),
        processor_p99_milliseconds=1e3 * _quantile(sorted(cycle.processor_seconds for cycle in timed), 0.99),
        filling_p99_milliseconds=1e3 * _quantile(filling, 0.99),
        filling_largest_milliseconds=1e3 * filling[-1],
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


def _quantile(rising: Sequence[float], ratio: float) -> float:
    """Return the smallest value that at least this part of the values does not exceed."""
    return rising[max(0, math.ceil(ratio * len(rising)) - 1)]


def _nodes(gpus: int, allocatable_percent: int, chance: random.Random) -> list[Node]:
    """Return nodes of 8 GPUs; those of one node are of one model."""
    made = []
    for number in range(gpus // GPUS_PER_NODE):
        name, (model, memory_bytes) = f"n{number:05d}", chance.choice(MODELS)
        made.append(
            Node(
                name,
                tuple(
                    GPU(
                        f"{name}-{index}",
                        name,
                        index,
                        model,
                        memory_bytes,
                        memory_bytes - GIB,
                        allocatable_percent,
                    )
                    for index in range(GPUS_PER_NODE)
                ),
            )
        )
    return made


def _outside_each_zone(nodes: Sequence[Node]) -> list[frozenset[str]]:
    """Return, by zone, the nodes that a job keeps away from whose node selector names the zone."""
    zones = [frozenset(node.name for node in nodes[zone::ZONES]) for zone in range(ZONES)]
    return [frozenset(node.name for node in nodes) - zone for zone in zones]


def main() -> None:
    """Measure at each size, print, and write the figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--shared", type=int, nargs="*", default=[1_000], help="sizes with shared memory")
    parser.add_argument("--cycles", type=int, default=500)
    parser.add_argument("--policy", default=None)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    speeds = []
    for size, shared_memory in [(size, False) for size in arguments.sizes] + [
        (size, True) for size in arguments.shared
    ]:
        speeds.append(measure(size, arguments.cycles, arguments.policy, shared_memory=shared_memory))
        print(json.dumps(asdict(speeds[-1])), flush=True)
    alone = [speed for speed in speeds if not speed.shared_memory]
    found = {
        "speeds": [asdict(speed) for speed in speeds],
        "growth_exponent_p50": growth_exponent(alone, "p50_milliseconds") if len(alone) > 1 else None,
        "growth_exponent_cold": growth_exponent(alone, "cold_milliseconds") if len(alone) > 1 else None,
    }
    print(f"p50 grows with the size to the power of {found['growth_exponent_p50']}")
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
