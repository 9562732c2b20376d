"""Properties of every snapshot and every policy."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from laneway.api.enforcement import Enforcement
from laneway.lanes import tightest_bytes
from laneway.scheduling import (
    GPU,
    NEVER_FITS,
    ClusterSnapshot,
    Demand,
    Job,
    JobState,
    Node,
    Policies,
    WorkerPlacement,
    policies,
)
from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.plan import WaitingCode
from laneway.scheduling.model.tenants import tenant_of
from laneway.scheduling.order.fifo import Fifo
from laneway.scheduling.placement.lanes import Lanes
from laneway.scheduling.placement.policy import PlacementPolicy

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import GIB, NOW
from tests.unit.core.scheduling.strategies import (
    carried_out,
    choices,
    jobs,
    nodes,
    snapshots,
)
from tests.unit.core.scheduling.whole_plan import next_decision_seconds, plan

quick = settings(max_examples=examples(60))


def gone(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """The snapshot once the releasing jobs are gone and wait."""
    return replace(
        snapshot,
        jobs=tuple(
            replace(job, state=JobState.WAITING, placement=(), waiting_since_seconds=NOW)
            if job.state is JobState.TERMINATING
            else job
            for job in snapshot.jobs
        ),
    )


def requested_of(snapshot: ClusterSnapshot) -> dict[str, Counter[str]]:
    """By node: what the workers there request beside GPUs."""
    requested: dict[str, Counter[str]] = {node.name: Counter() for node in snapshot.nodes}
    for job in snapshot.jobs:
        for worker in job.placement:
            requested[worker.node].update(dict(job.demand.requests.amounts))
    return requested


@dataclass(frozen=True)
class EachAlone:
    """Places as another policy does, and has every job tried by itself."""

    policy: PlacementPolicy

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        return self.policy.place(job, capacity)

    def profile_key(self, job: Job) -> Hashable:
        return object()


def assert_capacity(snapshot: ClusterSnapshot) -> None:
    requested = requested_of(snapshot)
    for node in snapshot.nodes:
        if node.host is not None:
            for name, amount in requested[node.name].items():
                assert amount <= node.host.of_resource(name)
        for gpu in node.gpus:
            held = [
                (job, worker.share_percent)
                for job in snapshot.jobs
                for worker in job.placement
                if gpu.uuid in worker.gpus
            ]
            assert sum(percent for _, percent in held) <= gpu.allocatable_percent
            tenants = [tenant_of(job, gpu, percent) for job, percent in held]
            assert tightest_bytes(tenants, gpu.lane_rules) <= gpu.allocatable_bytes
            assert len(held) <= 1 or not any(job.demand.exclusive for job, _ in held)
            assert all(
                percent == max(each for _, each in held)
                for job, percent in held
                if job.demand.minimum_enforcement is Enforcement.MPS
            )


@quick
@given(snapshots())
def test_no_gpu_is_ever_promised_beyond_its_capacity(case: tuple[ClusterSnapshot, Policies]) -> None:
    snapshot, chosen = case
    for _ in range(3):
        snapshot = carried_out(snapshot, plan(snapshot, NOW, chosen))
        assert_capacity(snapshot)
        snapshot = gone(snapshot)


@quick
@given(snapshots())
def test_a_job_is_decided_alike_with_others_of_its_class_and_alone(
    case: tuple[ClusterSnapshot, Policies],
) -> None:
    snapshot, chosen = case
    alone = replace(chosen, placement=EachAlone(chosen.placement))
    for _ in range(2):
        decided, expected = plan(snapshot, NOW, chosen), plan(snapshot, NOW, alone)
        assert decided.starts == expected.starts
        assert decided.preemptions == expected.preemptions
        assert decided.resumes == expected.resumes
        assert decided.order == expected.order
        snapshot = gone(carried_out(snapshot, decided))


@quick
@given(snapshots())
def test_a_gang_has_all_of_its_workers_or_none(case: tuple[ClusterSnapshot, Policies]) -> None:
    snapshot, chosen = case
    decided = plan(snapshot, NOW, chosen)
    demands_of = {job.key: job.demand for job in snapshot.jobs}
    for key, placement in decided.starts.items():
        assert len(placement) == demands_of[key].workers
        assert all(len(worker.gpus) == demands_of[key].gpus_per_worker for worker in placement)


@quick
@given(snapshots(), st.randoms(use_true_random=False))
def test_a_plan_does_not_depend_on_the_order_of_the_lists(
    case: tuple[ClusterSnapshot, Policies], shuffled: random.Random
) -> None:
    snapshot, chosen = case
    first = plan(snapshot, NOW, chosen)
    mixed = replace(
        snapshot,
        jobs=tuple(shuffled.sample(snapshot.jobs, len(snapshot.jobs))),
        nodes=tuple(
            replace(node, gpus=tuple(shuffled.sample(node.gpus, len(node.gpus))))
            for node in shuffled.sample(snapshot.nodes, len(snapshot.nodes))
        ),
    )
    second = plan(mixed, NOW, chosen)
    assert first == second
    assert list(first.starts) == list(second.starts)
    assert list(first.waiting) == list(second.waiting)


@quick
@given(nodes(), jobs("ns/alone"), choices())
def test_a_job_alone_on_an_empty_cluster_starts_or_never_fits(
    cluster: tuple[Node, ...], job: Job, chosen: Policies
) -> None:
    assume(not job.suspended)
    healthy = tuple(
        replace(node, schedulable=True, gpus=tuple(replace(gpu, healthy=True) for gpu in node.gpus))
        for node in cluster
    )
    decided = plan(ClusterSnapshot(healthy, (job,)), NOW, chosen)
    assert (job.key in decided.starts) != (job.key in decided.waiting)
    if job.key in decided.waiting:
        assert decided.waiting[job.key].code in NEVER_FITS


@quick
@given(snapshots())
def test_nobody_waits_for_a_gpu_that_is_free(case: tuple[ClusterSnapshot, Policies]) -> None:
    """Work conservation. Strict fifo does not promise it, nor do lanes, which refuse company that gains nothing. What is kept for
    a job that goes first is another matter; see ``tests/adversarial``."""
    snapshot, chosen = case
    assume(
        not isinstance(chosen.placement, Lanes)
        and not (isinstance(chosen.order, Fifo) and chosen.order.strict)
    )
    decided = plan(snapshot, NOW, chosen)
    assume(not decided.preemptions and all(job.state is not JobState.TERMINATING for job in snapshot.jobs))
    assume(all(reason.code is not WaitingCode.HAS_RESERVATION for reason in decided.waiting.values()))
    held: dict[str, int] = {}
    for placement in (*(job.placement for job in snapshot.jobs), *decided.starts.values()):
        for worker in placement:
            for uuid in worker.gpus:
                held[uuid] = held.get(uuid, 0) + worker.share_percent
    requested = requested_of(carried_out(snapshot, decided))
    free = [
        (gpu.allocatable_percent - held.get(gpu.uuid, 0), node)
        for node in snapshot.nodes
        for gpu in node.gpus
        if node.schedulable and gpu.healthy and gpu.allocatable_percent == 100
    ]
    for job in snapshot.jobs:
        anywhere = not job.demand.models and job.demand.minimum_enforcement is Enforcement.NONE
        simple = job.demand.gpus == 1 and anywhere and not job.demand.memory_bytes
        if job.key in decided.waiting and simple and not job.suspended:
            free_for_it = [
                percent
                for percent, node in free
                if node.host is None
                or all(
                    requested[node.name][name] + amount <= node.host.of_resource(name)
                    for name, amount in job.demand.requests.amounts
                )
            ]
            needed = 100 if job.demand.exclusive else job.demand.share_percent
            assert max(free_for_it, default=0) < needed


@quick
@given(snapshots())
def test_every_waiting_job_is_told_why_and_what_would_help(case: tuple[ClusterSnapshot, Policies]) -> None:
    snapshot, chosen = case
    decided = plan(snapshot, NOW, chosen)
    positions = [reason.position for reason in decided.waiting.values() if reason.position]
    assert positions == list(range(1, len(positions) + 1))
    for reason in decided.waiting.values():
        assert str(reason.message).endswith(".")
        assert reason.unblock.endswith(".")


@quick
@given(snapshots())
def test_who_is_preempted_has_a_beneficiary_that_waits_for_it(case: tuple[ClusterSnapshot, Policies]) -> None:
    snapshot, chosen = case
    decided = plan(snapshot, NOW, chosen)
    for key, preemption in decided.preemptions.items():
        if preemption.preemptor is not None:
            assert key in decided.waiting[preemption.preemptor].blockers
            assert decided.order.index(preemption.preemptor) < decided.order.index(key)


@quick
@given(snapshots())
def test_a_plan_carried_out_is_followed_by_one_that_moves_nobody_back(
    case: tuple[ClusterSnapshot, Policies],
) -> None:
    snapshot, chosen = case
    for _ in range(12):
        decided = plan(snapshot, NOW, chosen)
        snapshot = gone(carried_out(snapshot, decided))
        if not decided.starts and not decided.preemptions:
            return
    pytest.fail("twelve plans in a row, without time going on, still move jobs")


@quick
@given(st.lists(st.tuples(st.floats(1, 5000), st.floats(1, 200_000)), min_size=1, max_size=8))
def test_promotion_bounds_how_long_a_job_is_kept_out_of_the_first_queue(
    history: list[tuple[float, float]],
) -> None:
    waiting = tuple(
        Job(
            f"ns/j{number}",
            Demand(),
            created_seconds=-1e6,
            attained_service_gpu_seconds=10_000.0,
            executed_seconds=executed,
            waiting_since_seconds=NOW - waited,
        )
        for number, (executed, waited) in enumerate(history)
    )
    cluster = (Node("n", (GPU("g", "n", 0, "A100", GIB, GIB),)),)
    chosen = policies(order="tiresias-las", order_options={"promotion_factor": 8})
    decided = plan(ClusterSnapshot(cluster, waiting), NOW, chosen)
    due = next_decision_seconds(ClusterSnapshot(cluster, waiting), NOW, chosen)
    for job in waiting:
        overdue = job.waited_seconds(NOW) >= 8 * job.executed_seconds
        assert (decided.queues[job.key] == 0) == overdue
        assert (job.key in decided.promotions) == overdue
        if not overdue:
            assert due is not None
            assert due <= NOW + 8 * job.executed_seconds - job.waited_seconds(NOW) + 1e-6
