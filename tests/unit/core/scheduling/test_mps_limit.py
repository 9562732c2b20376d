"""MPS limits all processes on a GPU to the largest share there: who demands MPS has the largest share of its GPU."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.api.enforcement import Enforcement
from laneway.scheduling import ForeignTenant, JobState, Node, Scheduler, WaitingCode
from laneway.scheduling.gpus.mps_clients import MOST_CLIENTS, MPSClient, MPSClients

from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job, a_node, eager, gpus_of, planned


def an_mps_node(name: str = "n", gpus: int = 1, percent: int = 100) -> Node:
    return a_node(name, gpus, percent=percent, enforcement="MPS")


def strict(name: str, percent: int) -> JobBuilder:
    """A job with a share that MPS shall hold."""
    return a_job(name).needs(share_percent=percent, minimum_enforcement=Enforcement.MPS)


def test_a_strict_job_is_placed_where_no_share_is_larger() -> None:
    big = a_job("big").share(60).runs_on("n/0")
    assert gpus_of(planned([an_mps_node(gpus=2)], big, strict("s", 20)), "s") == ["n/1"]


def test_a_larger_job_is_placed_beside_no_strict_one() -> None:
    small = strict("s", 20).runs_on("n/0")
    assert gpus_of(planned([an_mps_node(gpus=2)], small, a_job("big").share(60)), "big") == ["n/1"]


@pytest.mark.parametrize(
    ("there", "comes"),
    [
        (strict("a", 20), strict("b", 20)),
        (strict("a", 40), a_job("b").share(20)),
        (a_job("a").share(20), strict("b", 40)),
        (a_job("a").share(60), a_job("b").share(20)),
    ],
    ids=["equal shares", "a smaller neighbour comes", "a larger strict one comes", "nobody demands MPS"],
)
def test_others_share_the_gpu(there: JobBuilder, comes: JobBuilder) -> None:
    assert gpus_of(planned([an_mps_node()], there.runs_on("n/0"), comes), "b") == ["n/0"]


def test_two_that_start_together_are_kept_apart_too() -> None:
    found = planned([an_mps_node(gpus=2)], strict("s", 20), a_job("big").share(60).created(1))
    assert gpus_of(found, "s") != gpus_of(found, "big")


def test_each_worker_of_a_gang_is_placed_so() -> None:
    nodes = [an_mps_node("m", 2), an_mps_node("n", 2)]
    big = a_job("big").needs(2, share_percent=60).runs_on("m/0", "n/1")
    gang = a_job("g").needs(2, share_percent=20, minimum_enforcement=Enforcement.MPS)
    assert not {"m/0", "n/1"}.intersection(gpus_of(planned(nodes, big, gang), "g"))


def test_a_job_that_demands_less_may_be_anywhere() -> None:
    nodes = [a_node("c", 1, enforcement="Interposer")]
    small = a_job("s").needs(share_percent=20, minimum_enforcement=Enforcement.INTERPOSER)
    found = planned([*nodes], small.runs_on("c/0"), a_job("big").share(60))
    assert gpus_of(found, "big") == ["c/0"]


@pytest.mark.parametrize("state", [JobState.PAUSED, JobState.OFFLOADED, JobState.TERMINATING])
def test_a_neighbour_counts_as_long_as_it_has_its_pod(state: JobState) -> None:
    node = an_mps_node(percent=200)
    big = a_job("big").share(60).runs_on("n/0", state=state).priority(5)
    assert not planned([node], big, strict("s", 20)).starts


def test_plain_pods_count() -> None:
    plain = a_node("n", 1, enforcement="MPS", foreign={0: [ForeignTenant("ns/plain", 60)]})
    reason = planned([plain], strict("s", 20)).waiting["s"]
    assert reason.code is WaitingCode.AWAITING_MPS_LIMIT
    assert reason.blockers == ("ns/plain",)


def test_a_smaller_share_waits_with_a_reason_and_starts_when_the_larger_has_ended() -> None:
    made = Scheduler([an_mps_node()], eager())
    made.observe(a_job("big").share(60).runs_on("n/0").made)
    made.observe(strict("s", 20).made)
    reason = made.plan(NOW).waiting["s"]
    assert reason.code is WaitingCode.AWAITING_MPS_LIMIT
    assert str(reason.message) == (
        "It needs 20 percent of a GPU held by MPS, and enough of the shared GPUs is free, but MPS limits all processes on a GPU to "
        "the largest share there: beside big (60 percent) it would not be held to its own 20 percent."
    )
    assert reason.unblock == (
        "It starts when others of at most 20 percent are there; with a share of 60 percent, or with minimumEnforcement Interposer, "
        "it need not wait for that."
    )
    assert reason.blockers == ("big",)
    made.forget("big")
    assert made.plan(NOW).starts.keys() == {"s"}


def test_a_larger_share_waits_with_a_reason() -> None:
    neighbours = [strict("s", 20).runs_on("n/0"), strict("t", 20).runs_on("n/0")]
    reason = planned([an_mps_node()], *neighbours, a_job("big").share(60)).waiting["big"]
    assert reason.code is WaitingCode.AWAITING_MPS_LIMIT
    assert str(reason.message).endswith(
        "beside its 60 percent, s (20 percent) and t (20 percent) would not be held as demanded."
    )
    assert reason.unblock == (
        "It starts when they have ended; with a share of at most 20 percent it need not wait for that."
    )
    assert reason.blockers == ("s", "t")


def test_a_larger_neighbour_is_preempted_for_a_strict_job_of_higher_priority() -> None:
    big = a_job("big").share(60).runs_on("n/0")
    found = planned([an_mps_node()], big, strict("s", 20).priority(5))
    assert found.preemptions.keys() == {"big"}


def test_an_mps_server_has_room_for_a_number_of_clients() -> None:
    there = [a_job(f"j{number:02}").share(1).runs_on("n/0") for number in range(MOST_CLIENTS)]
    reason = planned([an_mps_node()], *there, a_job("late").share(1)).waiting["late"]
    assert reason.code is WaitingCode.AWAITING_MPS_LIMIT
    assert (
        f"an MPS server takes {MOST_CLIENTS} clients of a GPU, and 48 containers are there" in reason.message
    )
    assert gpus_of(planned([an_mps_node()], *there[1:], a_job("late").share(1)), "late") == ["n/0"]
    assert "late" in planned([a_node("n", 1)], *there, a_job("late").share(1)).starts


def test_two_workers_that_a_node_reports_on_one_gpu_stop_no_cycle() -> None:
    """They count with the sum of their shares, for the policies and for the check of the plan."""
    twice = a_job("a").needs(2, share_percent=20, minimum_enforcement=Enforcement.MPS).runs_on("n/0", "n/0")
    assert gpus_of(planned([an_mps_node()], twice, a_job("b").share(30)), "b") == ["n/0"]


CLIENTS = st.lists(
    st.builds(MPSClient, st.uuids().map(str), st.integers(1, 100), st.booleans()), max_size=MOST_CLIENTS + 2
)


@given(CLIENTS, st.integers(1, 100), st.booleans())
def test_a_client_is_taken_if_and_only_if_each_that_demands_mps_has_the_largest_share(
    clients: list[MPSClient], share_percent: int, demands: bool
) -> None:
    newcomer = MPSClient("new", share_percent, demands)
    pairs = [(newcomer, each) for each in clients] + [(each, newcomer) for each in clients]
    held = all(not one.demands_mps or one.share_percent >= other.share_percent for one, other in pairs)
    found = MPSClients.of(clients).takes(share_percent, demands)
    assert found is (held and len(clients) < MOST_CLIENTS)


@given(CLIENTS, st.integers(1, 100), st.booleans(), st.data())
def test_fewer_clients_never_keep_one_out(
    clients: list[MPSClient], share_percent: int, demands: bool, data: st.DataObject
) -> None:
    """The search for victims counts on it."""
    left = data.draw(st.lists(st.sampled_from(clients), unique=True)) if clients else []
    if MPSClients.of(clients).takes(share_percent, demands):
        assert MPSClients.of(left).takes(share_percent, demands)


def test_the_level_of_a_gpu_may_rise_while_jobs_run() -> None:
    """What is there already is not the plan's doing; what comes is."""
    made = Scheduler([a_node("n", 1)], eager())
    for job in (strict("s", 20).runs_on("n/0"), a_job("big").share(60).runs_on("n/0")):
        made.observe(job.made)
    made.set_nodes([an_mps_node()])
    made.observe(a_job("late").share(10).made)
    assert made.plan(NOW).starts.keys() == {"late"}
