"""Only what decides about a job's placement belongs to its equivalence class."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import pytest
from laneway.scheduling import Job, Node, Profile, Scheduler, WorkerPlacement
from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.snapshot import StageSeconds
from laneway.scheduling.placement.best_fit import BestFit
from laneway.scheduling.placement.lanes import Lanes
from laneway.scheduling.placement.policy import PlacementPolicy
from laneway.scheduling.placement.tiresias import TiresiasPlacement

from tests.unit.core.scheduling.builders import GIB, NOW, JobBuilder, a_job, a_node, eager


@dataclass
class Recorder:
    """Places as another policy does, and records for which jobs it is asked."""

    policy: PlacementPolicy
    asked: set[str] = field(default_factory=set)

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        self.asked.add(job.key)
        return self.policy.place(job, capacity)

    def profile_key(self, job: Job) -> Hashable:
        return self.policy.profile_key(job)


def asked(policy: PlacementPolicy, nodes: list[Node], *jobs: JobBuilder) -> set[str]:
    """Return the jobs for which one decision searches a place."""
    recorder = Recorder(policy)
    scheduler = Scheduler(nodes, replace(eager(), placement=recorder))
    for job in jobs:
        scheduler.observe(job.made)
    assert not scheduler.decide(NOW).starts
    return recorder.asked


def profiled(job: JobBuilder, number: int, **fields: object) -> JobBuilder:
    profile = Profile(number * GIB, 2 * number * GIB, iteration_seconds=1.0 + number)
    return replace(job, made=replace(job.made, profile=replace(profile, **fields)))


def pairs(percent: int = 100) -> tuple[list[Node], list[JobBuilder]]:
    """Two nodes with one idle GPU each, and five jobs that need two GPUs of a node."""
    nodes = [a_node("a", 2, percent=percent), a_node("b", 2, percent=percent)]
    waiting = [profiled(a_job(f"w{n}").needs(gpus_per_worker=2), n + 1) for n in range(5)]
    return nodes, waiting


BUSY = (
    a_job("r").needs(exclusive=True).runs_on("a/0").never_preempted(),
    a_job("s").needs(exclusive=True).runs_on("b/0").never_preempted(),
)


def test_jobs_that_differ_in_their_profiles_alone_are_tried_once() -> None:
    nodes, waiting = pairs()
    assert asked(BestFit(), nodes, *BUSY, *waiting) == {"w0"}


def test_an_exclusive_job_fits_any_empty_gpu() -> None:
    nodes, waiting = pairs(percent=200)
    alone = [
        replace(job, made=replace(job.made, demand=replace(job.made.demand, exclusive=True)))
        for job in waiting
    ]
    assert asked(BestFit(), nodes, *BUSY, *alone) == {"w0"}


def test_memory_counts_where_gpus_are_overcommitted() -> None:
    nodes, waiting = pairs(percent=200)
    assert asked(BestFit(), nodes, *BUSY, *waiting) == {"w0", "w1", "w2", "w3", "w4"}


def test_tiresias_reads_whether_the_skew_is_large() -> None:
    nodes, waiting = pairs()
    skewed = [
        profiled(job, n + 1, model_bytes=100, largest_tensor_bytes=[5, 80, 7, 90, 9][n])
        for n, job in enumerate(waiting)
    ]
    assert asked(TiresiasPlacement(), nodes, *BUSY, *skewed) == {"w0", "w1"}


@pytest.mark.parametrize("policy", [BestFit(), TiresiasPlacement()])
def test_only_lanes_reads_stages(policy: PlacementPolicy) -> None:
    profiles = [Profile(GIB, GIB, 1.0, stages=StageSeconds(0.0, cpu, 0.5, 0.0)) for cpu in (0.1, 0.4)]
    jobs = [replace(a_job("j").made, profile=profile) for profile in profiles]
    assert len({policy.profile_key(job) for job in jobs}) == 1
    assert len({Lanes().profile_key(job) for job in jobs}) == 2
