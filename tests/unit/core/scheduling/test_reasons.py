"""The reason of a waiting job: the code, the numbers, and what would let it run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from laneway.api.enforcement import Enforcement
from laneway.scheduling import HostResources, Node, Profile, Scheduler, StageSeconds, WaitingCode, policies

from tests.unit.core.scheduling.builders import GIB, NOW, JobBuilder, a_job, a_node, eager, planned


def job() -> JobBuilder:
    return a_job("j").created(500)


def with_host(name: str, **offered: int) -> Node:
    """A node that offers this to pods beside its GPUs."""
    return replace(a_node(name), host=HostResources.of(offered))


NEVER = [
    (
        "no GPUs at all",
        [],
        [],
        job(),
        WaitingCode.NOT_ENOUGH_GPUS,
        "It needs 1 GPU, and the cluster has none.",
        "Add a node with GPUs.",
    ),
    (
        "more GPUs than the cluster has",
        [a_node("m"), a_node("n")],
        [],
        job().needs(12),
        WaitingCode.NOT_ENOUGH_GPUS,
        "It needs 12 GPUs (12 workers), and the cluster has 8 suitable GPUs.",
        "Lower spec.workers to at most 8, or add 4 such GPUs to the cluster.",
    ),
    (
        "enough GPUs, of which some are of another model",
        [a_node("m"), a_node("n", model="T4")],
        [],
        job().needs(6, models=["A100"]),
        WaitingCode.NOT_ENOUGH_GPUS,
        "It needs 6 GPUs of A100 (6 workers), and the cluster has 4 suitable GPUs.",
        "Lower spec.workers to at most 4, or add 2 such GPUs to the cluster.",
    ),
    (
        "a model that is not there",
        [a_node("m"), a_node("n", 2, model="T4")],
        [],
        job().needs(models=["H200", "H100"]),
        WaitingCode.MODEL_NOT_IN_CLUSTER,
        "It accepts H100 or H200, and the cluster has only A100 (4), T4 (2).",
        "Write one of these in spec.gpus.models, or add a node with a model that the job accepts.",
    ),
    (
        "a model that is spelt otherwise",
        [a_node("m", model="NVIDIA A100-SXM4-80GB"), a_node("n", model="Tesla T4")],
        [],
        job().needs(models=["a100*", "NVIDIA V100"]),
        WaitingCode.MODEL_NOT_IN_CLUSTER,
        "It accepts NVIDIA V100 or a100*, and the cluster has only NVIDIA A100-SXM4-80GB (4), Tesla T4 (4).",
        "Write NVIDIA A100-SXM4-80GB in spec.gpus.models, or add a node with a model that the job accepts.",
    ),
    (
        "more CPUs than any node offers",
        [
            with_host("m", cpu=96_000, memory=512 * GIB, pods=110),
            with_host("n", cpu=64_000, memory=256 * GIB),
            a_node("t", model="T4"),
        ],
        [],
        job().needs(
            2, models=["A100"], requests=HostResources.of({"cpu": 128_000, "memory": 64 * GIB, "pods": 1})
        ),
        WaitingCode.WORKER_LARGER_THAN_NODE,
        "Each of its workers requests 128 CPUs and 64.0 GiB of memory; the largest node with suitable GPUs, m, offers 96 CPUs.",
        "In spec.template.spec.containers, lower resources.requests.cpu to at most 96, all containers together, or add a larger node.",
    ),
    (
        "more of two resources, and one that no node has",
        [with_host("m", cpu=1500, memory=GIB)],
        [],
        job().needs(requests=HostResources.of({"cpu": 2000, "memory": 2 * GIB, "example.com/nic": 1})),
        WaitingCode.WORKER_LARGER_THAN_NODE,
        "Each of its workers requests 2 CPUs and 1 of example.com/nic and 2.0 GiB of memory; the largest node with suitable GPUs, "
        "m, offers 1.5 CPUs and 0 of example.com/nic and 1.0 GiB of memory.",
        "In spec.template.spec.containers, lower resources.requests.cpu to at most 1500m and resources.requests.memory to at most 1024Mi "
        "and leave out resources.requests[example.com/nic], all containers together, or add a larger node.",
    ),
    (
        "more workers than all nodes have CPUs for",
        [with_host("m", cpu=8000), with_host("n", cpu=4000)],
        [],
        job().needs(4, requests=HostResources.of({"cpu": 4000})),
        WaitingCode.NOT_ENOUGH_GPUS,
        "It needs 4 GPUs (4 workers). Each of its workers requests 4 CPUs: the cluster's nodes together can hold 3 of them, and m has "
        "the most: 8 CPUs.",
        "Lower spec.workers to at most 3, request less cpu in spec.template, or add nodes for 1 more.",
    ),
    (
        "a node that takes no pods",
        [with_host("m", pods=0)],
        [],
        job().needs(requests=HostResources.of({"pods": 1})),
        WaitingCode.WORKER_LARGER_THAN_NODE,
        "Each of its workers requests a pod; the largest node with suitable GPUs, m, offers 0 pods.",
        "Add a larger node.",
    ),
    (
        "a level that no GPU is held at",
        [
            a_node("m"),
            a_node("n", 2, enforcement="Cooperative"),
            a_node("o", 1, model="T4", enforcement="MPS"),
        ],
        [],
        job().needs(models=["A100"], minimum_enforcement=Enforcement.MPS),
        WaitingCode.ENFORCEMENT_NOT_IN_CLUSTER,
        "It demands the enforcement MPS, and the GPUs that it accepts are held by Cooperative (2), Watchdog (4).",
        "Lower minimumEnforcement. Or raise the level of the nodes: enforcement.level in their configuration, and where that "
        "asks for it, what enforcementReason reports in the GPUNodes' status.",
    ),
    (
        "too few GPUs that are held as it demands",
        [a_node("m", 1, enforcement="MPS"), a_node("n")],
        [],
        job().needs(2, minimum_enforcement=Enforcement.MPS),
        WaitingCode.NOT_ENOUGH_GPUS,
        "It needs 2 GPUs held by MPS (2 workers), and the cluster has 1 suitable GPU.",
        "Lower spec.workers to at most 1, or add 1 such GPU to the cluster.",
    ),
    (
        "more memory than any GPU has",
        [a_node("m")],
        [],
        job().needs(memory_bytes=48 * GIB),
        WaitingCode.GPU_TOO_SMALL,
        "It needs 48.0 GiB of one GPU; the largest that it accepts (A100) has 40.0 GiB for jobs.",
        "Lower spec.gpus.memory to at most 40960Mi, or add a node with larger GPUs.",
    ),
    (
        "a worker larger than any node",
        [a_node("m"), a_node("n", 6)],
        [],
        job().needs(gpus_per_worker=8),
        WaitingCode.WORKER_LARGER_THAN_NODE,
        "Each of its workers needs 8 GPUs of one node; the largest suitable node, n, has 6.",
        "Create it again with spec.gpus.count of at most 6, and with as many workers as 10 suitable GPUs can hold; or add a larger node.",
    ),
    (
        "enough GPUs, in nodes that leave a rest",
        [a_node("m", 3), a_node("n", 3)],
        [],
        job().needs(3, gpus_per_worker=2),
        WaitingCode.NOT_ENOUGH_GPUS,
        "It needs 6 GPUs (3 workers with 2 each), and the cluster's nodes together can hold 2 of its workers.",
        "Lower spec.workers to at most 2, or add nodes for 1 more.",
    ),
]

FOR_OTHERS = [
    (
        "others hold the GPUs",
        [a_node("n", 4)],
        [a_job("x").needs(3).runs_on("n/0", "n/1", "n/2")],
        job().needs(4),
        WaitingCode.GPUS_BUSY,
        "It needs 4 GPUs (4 workers); 1 of 4 suitable GPUs is available.",
        "It starts when 3 more GPUs become available, as other jobs end or are preempted.",
    ),
    (
        "others hold the GPUs of the nodes that can be used",
        [a_node("l", 1, sick=[0]), a_node("m", 2, cordoned=True), a_node("n", 1)],
        [a_job("x").runs_on("n/0")],
        job(),
        WaitingCode.GPUS_BUSY,
        "It needs 1 GPU; 0 of 4 suitable GPUs are available; 1 of l is unhealthy; m takes no workers (it is cordoned).",
        "It starts when 1 more GPU becomes available, as other jobs end or are preempted.",
    ),
    (
        "a share that nobody has left",
        [a_node("n", 1)],
        [a_job("x").share(80).runs_on("n/0")],
        job().share(30),
        WaitingCode.GPUS_BUSY,
        "It needs 30 percent of a GPU; 0 of 1 suitable GPUs are available.",
        "It starts when 1 more GPU becomes available, as other jobs end or are preempted.",
    ),
    (
        "shares left over everywhere, and enough nowhere",
        [a_node("n", 2)],
        [a_job("x").share(80).runs_on("n/0"), a_job("y").share(70).runs_on("n/1")],
        job().share(40),
        WaitingCode.GPUS_FRAGMENTED,
        "It needs 40 percent of a GPU; 50 percent are free in total, but at most 30 percent on one GPU.",
        "It starts when more of the same GPU becomes free.",
    ),
    (
        "one GPU with enough left, and two that have it together",
        [a_node("n", 3)],
        [
            a_job("x").share(40).runs_on("n/0"),
            *(a_job(f"y{at}").share(70).runs_on(f"n/{at}") for at in (1, 2)),
        ],
        job().needs(2, share_percent=40),
        WaitingCode.GPUS_BUSY,
        "It needs 40 percent of each of 2 GPUs; 1 of 3 suitable GPUs is available.",
        "It starts when 1 more GPU becomes available, as other jobs end or are preempted.",
    ),
    (
        "GPUs free on different nodes for a worker that wants them on one",
        [a_node("m", 2), a_node("n", 2)],
        [a_job("x").runs_on("m/0"), a_job("y").runs_on("n/0")],
        job().needs(gpus_per_worker=2),
        WaitingCode.GPUS_FRAGMENTED,
        "It needs 2 GPUs of one node; 2 are available, but no node has 2 of them for each worker.",
        "It starts when GPUs of the same node become free.",
    ),
    (
        "the nodes that it needs are away",
        [a_node("l", 1, sick=[0]), a_node("m", 2, cordoned=True), a_node("n", 2)],
        [],
        job().needs(4),
        WaitingCode.NODES_UNAVAILABLE,
        "It needs 4 GPUs (4 workers); 2 of 5 suitable GPUs can be used now: 1 of l is unhealthy; "
        "m takes no workers (it is cordoned).",
        "It can start when these nodes and GPUs are back.",
    ),
]


@pytest.mark.parametrize(
    ("story", "nodes", "others", "subject", "code", "message", "unblock"), NEVER + FOR_OTHERS
)
def test_reasons(
    story: str,
    nodes: Sequence[Node],
    others: Sequence[JobBuilder],
    subject: JobBuilder,
    code: WaitingCode,
    message: str,
    unblock: str,
) -> None:
    reason = planned(nodes, *others, subject).waiting["j"]
    assert (reason.code, str(reason.message), reason.unblock) == (code, message, unblock), story


@pytest.mark.parametrize("row", NEVER, ids=[row[0] for row in NEVER])
def test_who_never_fits_holds_no_position_before_others(row: tuple[object, ...]) -> None:
    _, nodes, _, subject, *_ = row
    assert isinstance(subject, JobBuilder)
    reason = planned(nodes, subject).waiting["j"]  # type: ignore[arg-type]
    assert reason.never_fits
    assert reason.position == 0
    assert reason.lacking_gpus or reason.lacking_bytes or subject.made.demand.requests


@pytest.mark.parametrize("row", FOR_OTHERS, ids=[row[0] for row in FOR_OTHERS])
def test_who_waits_for_others_has_a_position(row: tuple[object, ...]) -> None:
    _, nodes, others, subject, *_ = row
    reason = planned(nodes, *others, subject).waiting["j"]  # type: ignore[arg-type,misc]
    assert not reason.never_fits
    assert reason.position == 1


def test_a_node_kept_away_from_is_named() -> None:
    plan = planned([a_node("m", 1), a_node("n", 1)], a_job("j").needs(2), avoid={"j": frozenset({"n"})})
    assert "1 of 2 suitable GPUs can be used now: n takes none of its workers." in plan.waiting["j"].message


def test_of_many_nodes_the_first_are_named_for_each_cause() -> None:
    nodes = [a_node(f"n{number}", 1, cordoned=True) for number in range(5)]
    sick = [a_node(f"s{number}", 2, sick=[0]) for number in range(2)]
    reason = planned([*nodes, *sick], a_job("j").needs(9)).waiting["j"]
    assert reason.message.endswith(
        "1 of s0, 1 of s1 are unhealthy; n0, n1, n2 and 2 more take no workers (it is cordoned)."
    )


def test_many_victims_are_counted_and_all_are_listed_as_blockers() -> None:
    victims = [a_job(f"v{i}").served(5000).runs_on(f"n/{i}") for i in range(5)]
    reason = planned([a_node("n", 5)], *victims, a_job("j").needs(5)).waiting["j"]
    assert "and 2 more to release their GPUs" in str(reason.message)
    assert len(reason.blockers) == 5


def test_a_policy_that_waits_for_a_better_place_says_so() -> None:
    """Two jobs that use the GPU all the time would only halve each other's speed."""
    greedy = Profile(0, 0, iteration_seconds=1.0, stages=StageSeconds(0.0, 0.0, 1.0, 0.0))
    runs = a_job("runs").runs_on("n/0")
    jobs = [JobBuilder(replace(job.made, profile=greedy)) for job in (runs, a_job("waits").created(1))]
    found = planned([a_node("n", 1, percent=200)], *jobs, by=policies(order="fifo", placement="lanes"))
    assert found.waiting["waits"].code is WaitingCode.AWAITING_BETTER_PLACE
    assert "No GPUs are free for it alone, and it joins no other jobs" in found.waiting["waits"].message


def test_what_is_free_only_to_jobs_that_join_others_does_not_count_as_free() -> None:
    """With 400 percent on offer, 600 are free; a job that takes a GPU for itself can have none of them."""
    others = [a_job(f"x{at}").runs_on(f"n/{at}") for at in (0, 1)]
    alone = job().needs(exclusive=True)
    found = planned(
        [a_node("n", 2, percent=400)], *others, alone, by=policies(order="fifo", placement="lanes")
    )
    reason = found.waiting["j"]
    assert (reason.code, str(reason.message)) == (
        WaitingCode.GPUS_BUSY,
        "It needs 1 GPU alone; 0 of 2 suitable GPUs are available.",
    )


@pytest.mark.parametrize(
    "demand",
    [
        {"models": ["H100"]},
        {"minimum_enforcement": Enforcement.MPS},
        {"memory_bytes": 80 * GIB},
        {"models": ["T4"]},
    ],
    ids=["unknown model", "stronger enforcement", "larger GPU", "all its nodes are cordoned"],
)
def test_a_truncated_cycle_has_a_reason_for_a_job_that_suits_no_usable_gpu(demand: dict[str, Any]) -> None:
    made = Scheduler([a_node("n", 2), a_node("c", model="T4", cordoned=True)], eager())
    made.observe(a_job("first").created(0).made)
    made.observe(a_job("second").created(1).made)
    made.observe(a_job("unsuitable").created(2).needs(**demand).made)
    found = made.plan(NOW, max_starts=1)
    assert found.truncated
    assert found.starts.keys() == {"first"}
    assert {reason.code for reason in found.waiting.values()} == {WaitingCode.NOT_CONSIDERED}


def test_between_full_explanations_only_the_asked_ones_are_worked_out_and_all_positions_are_right() -> None:
    made = Scheduler([a_node("n", 1)], eager())
    for at, name in enumerate(["first", "second", "third", "fourth"]):
        made.observe(a_job(name).created(at).made)
    before = made.explain(made.decide(NOW), NOW)
    assert {key: reason.position for key, reason in before.items()} == {"second": 1, "third": 2, "fourth": 3}
    made.observe(a_job("second").created(1).suspended().made)
    made.observe(a_job("fourth").created(3).needs(models=["T4"]).made)
    decision = made.decide(NOW)
    found = made.explain(decision, NOW, before, again={"fourth"})
    assert found == made.explain(decision, NOW)
    assert found["third"].position == 1
    stale = made.explain(decision, NOW, before, again=set())
    assert stale["fourth"].code is before["fourth"].code
    assert stale["second"].code is WaitingCode.SUSPENDED, "it costs nothing to see"


def test_nodes_whose_gpus_are_held_by_a_weaker_level_are_named() -> None:
    demanding = job().needs(minimum_enforcement=Enforcement.INTERPOSER)
    nodes = [
        a_node("m", 1, enforcement="Interposer", cordoned=True),
        a_node("n", 1),
        a_node("o", 1),
        a_node("p", 1, enforcement="Cooperative"),
    ]
    assert planned(nodes, demanding).waiting["j"].message == (
        "It needs 1 GPU held by Interposer; 0 of 1 suitable GPUs can be used now: m takes no workers (it is cordoned); "
        "p has GPUs held by Cooperative only; n, o have GPUs held by Watchdog only."
    )
