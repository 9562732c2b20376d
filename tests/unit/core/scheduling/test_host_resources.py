"""CPUs, memory and other resources that pods request: no node is promised more of them than it has for jobs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from laneway.scheduling import (
    Decision,
    HostResources,
    InvalidPlan,
    JobState,
    Node,
    PreemptionAction,
    WaitingCode,
    WorkerPlacement,
    policies,
)
from laneway.scheduling.config.registry import PLACEMENT
from laneway.scheduling.model.host_resources import format_amount
from laneway.scheduling.model.plan import NOT_COMPETING
from laneway.scheduling.validation import Holdings, check_decision

from tests.unit.core.scheduling.builders import GIB, JobBuilder, a_job, a_node, gpus_of, planned


def with_cpus(name: str, cpus: int, gpus: int = 4, percent: int = 100) -> Node:
    return replace(a_node(name, gpus, percent=percent), host=HostResources.of({"cpu": 1000 * cpus}))


def asking(name: str, cpus: int, workers: int = 1, **demand: object) -> JobBuilder:
    return a_job(name).needs(workers, requests=HostResources.of({"cpu": 1000 * cpus}), **demand)


@pytest.mark.parametrize("placement", sorted(PLACEMENT))
def test_a_gang_goes_where_its_cpus_are(placement: str) -> None:
    """Every policy would put it on one node, by the GPUs alone."""
    nodes = [with_cpus("a", 8), with_cpus("b", 8), with_cpus("c", 3)]
    found = planned(nodes, asking("new", 4, workers=4), by=policies(placement=placement))
    assert Counter(worker.node for worker in found.starts["new"]) == {"a": 2, "b": 2}


@pytest.mark.parametrize("placement", sorted(PLACEMENT))
def test_a_share_passes_by_the_fullest_gpu_if_its_node_has_no_cpus_left(placement: str) -> None:
    nodes = [with_cpus("a", 8), with_cpus("b", 8)]
    runs = asking("runs", 8, share_percent=50).runs_on("a/0")
    found = planned(nodes, runs, asking("new", 1, share_percent=50), by=policies(placement=placement))
    assert gpus_of(found, "new")[0].startswith("b/")


def test_jobs_without_requests_and_nodes_of_unknown_resources_are_as_before() -> None:
    assert "new" in planned([with_cpus("a", 0)], a_job("new")).starts
    assert "new" in planned([a_node("a")], asking("new", 1000)).starts


def test_a_resource_that_no_node_names_fits_nowhere() -> None:
    job = a_job("new").needs(requests=HostResources.of({"example.com/nic": 1}))
    found = planned([with_cpus("a", 8)], job)
    assert found.waiting["new"].code is WaitingCode.WORKER_LARGER_THAN_NODE
    assert "1 of example.com/nic" in found.waiting["new"].message


def test_who_never_fits_is_told_the_resource() -> None:
    found = planned([with_cpus("a", 6), with_cpus("b", 4)], asking("new", 8))
    assert found.waiting["new"].code is WaitingCode.WORKER_LARGER_THAN_NODE
    assert found.waiting["new"].message == (
        "Each of its workers requests 8 CPUs; the largest node with suitable GPUs, a, offers 6 CPUs."
    )
    found = planned([with_cpus("a", 6), with_cpus("b", 4)], asking("new", 4, workers=3))
    assert found.waiting["new"].code is WaitingCode.NOT_ENOUGH_GPUS
    assert "can hold 2 of them" in found.waiting["new"].message


def test_pods_that_may_end_do_not_make_a_job_too_large_for_ever() -> None:
    """They are no workers: no job is preempted for their CPUs, and the wait for them gives no claim."""
    capacity = HostResources.of({"cpu": 8000})
    nodes = [replace(with_cpus(name, left), host_capacity=capacity) for name, left in (("a", 2), ("b", 3))]
    runs = asking("runs", 1).served(9000).runs_on("b/0")
    found = planned(nodes, runs, asking("new", 6))
    assert not found.preemptions
    assert found.waiting["new"].code is WaitingCode.HELD_BY_OTHER_PODS
    assert found.waiting["new"].code in NOT_COMPETING
    assert found.waiting["new"].message == (
        "It needs 1 GPU. Each of its workers requests 6 CPUs: the nodes have as much, but other pods hold some of it, "
        "and b has the most left: 3 CPUs."
    )
    gang = planned(nodes, asking("new", 2, workers=3))
    assert gang.waiting["new"].code is WaitingCode.HELD_BY_OTHER_PODS, "for one of three workers"
    too_large = planned(nodes, asking("new", 9))
    assert too_large.waiting["new"].code is WaitingCode.WORKER_LARGER_THAN_NODE
    assert "a, offers 8 CPUs" in too_large.waiting["new"].message


def test_a_node_that_is_cordoned_and_full_of_other_pods_is_unavailable() -> None:
    """Its other pods are not the only obstacle."""
    node = replace(with_cpus("a", 2), host_capacity=HostResources.of({"cpu": 8000}), schedulable=False)
    assert planned([node], asking("new", 6)).waiting["new"].code is WaitingCode.NODES_UNAVAILABLE


def test_who_waits_for_cpus_is_told_so() -> None:
    runs = asking("runs", 6).never_preempted().runs_on("a/0")
    found = planned([with_cpus("a", 8)], runs, asking("new", 4))
    assert found.waiting["new"].code is WaitingCode.HOST_RESOURCES_BUSY
    assert found.waiting["new"].message == (
        "It needs 1 GPU, which are available, but their nodes have too little cpu left: each worker requests 4 CPUs, "
        "and a has 2 CPUs left."
    )


def test_a_victim_need_not_be_on_the_gpus_that_are_needed() -> None:
    """GPUs are idle: only the CPUs of a job beside them are missing."""
    runs = asking("runs", 6).served(9000).runs_on("a/0")
    found = planned([with_cpus("a", 8)], runs, asking("new", 4))
    assert set(found.preemptions) == {"runs"}
    assert found.waiting["new"].blockers == ("runs",)


@pytest.mark.parametrize("placement", sorted(PLACEMENT))
def test_many_candidates_are_tried_by_what_their_pods_hold(placement: str) -> None:
    """Twenty jobs of later queues run elsewhere; the one whose CPUs are needed is found among them."""
    nodes = [with_cpus("a", 8, 4), *(with_cpus(f"n{number}", 1, 1) for number in range(20))]
    others = [asking(f"o{number}", 1).served(9000).runs_on(f"n{number}/0") for number in range(20)]
    hog = asking("hog", 6).served(9000).runs_on("a/0")
    found = planned(
        nodes,
        *others,
        hog,
        asking("new", 4),
        by=policies(placement=placement, preemption_options={"min_run_seconds": 0}),
    )
    assert set(found.preemptions) == {"hog"}


def test_nobody_is_preempted_where_it_would_not_help() -> None:
    nodes = [with_cpus("a", 8)]
    runs = [asking(f"r{number}", 1).served(9000).runs_on(f"a/{number}") for number in range(2)]
    keeps = asking("keeps", 4).never_preempted().runs_on("a/2")
    found = planned(nodes, *runs, keeps, asking("new", 6))
    assert not found.preemptions


def test_a_paused_victim_keeps_its_cpus_so_it_is_evicted() -> None:
    gpus = with_cpus("a", 8, 1, percent=200)
    node = replace(gpus, gpus=tuple(replace(gpu, active_percent=100) for gpu in gpus.gpus))
    small = asking("old", 2).served(9000).profiled(GIB, GIB).runs_on("a/0")
    large = asking("old", 6).served(9000).profiled(GIB, GIB).runs_on("a/0")
    new = asking("new", 4).profiled(GIB, GIB)
    assert planned([node], small, new).preemptions["old"].action is PreemptionAction.PAUSE
    assert planned([node], large, new).preemptions["old"].action is PreemptionAction.EVICT
    paused = large.runs_on("a/0", state=JobState.PAUSED)
    found = planned([node], paused, new)
    assert not found.starts
    assert found.preemptions["old"].action is PreemptionAction.EVICT


def test_a_job_that_may_not_preempt_takes_idle_gpus_only() -> None:
    old = asking("old", 4).served(9000).runs_on("a/0")
    new = asking("new", 4, preempts=False)
    found = planned([with_cpus("a", 8, 1)], old, new)
    assert not found.preemptions
    assert "kube-scheduler or a kubelet refused its workers" in found.waiting["new"].unblock
    assert set(planned([with_cpus("a", 8, 2)], old, new).starts) == {"new"}
    assert set(planned([with_cpus("a", 8, 1)], old, asking("new", 4)).preemptions) == {"old"}


def test_a_plan_that_overbooks_a_node_is_refused() -> None:
    holdings = Holdings([with_cpus("a", 8)])
    for job in (asking("runs", 6).runs_on("a/0"), asking("new", 4)):
        holdings.observe(job.made)

    overbooks = Decision(starts={"new": (WorkerPlacement(0, "a", ("a/1",), 100),)})
    with pytest.raises(InvalidPlan, match="a has 8 CPUs for jobs and is promised 10 CPUs"):
        check_decision(holdings, overbooks)


def test_amounts_are_for_people() -> None:
    assert format_amount("cpu", 1500) == "1.5 CPUs"
    assert format_amount("memory", 3 * GIB) == "3.0 GiB of memory"
    assert format_amount("example.com/nic", 2) == "2 of example.com/nic"
    with pytest.raises(ValueError, match="no amount of 0"):
        HostResources((("cpu", 0),))
