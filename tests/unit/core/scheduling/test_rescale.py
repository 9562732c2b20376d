"""A user asks a running job for another number of workers: when it is stopped for that, and when it runs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling import (
    ClusterSnapshot,
    Job,
    JobState,
    Node,
    Policies,
    PreemptionReason,
    Scheduler,
    policies,
)
from laneway.scheduling.model.held_rescale import HeldRescale, HoldReason
from laneway.scheduling.model.plan import Decision

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job, a_node
from tests.unit.core.scheduling.strategies import snapshots


def running(name: str, *gpus: str, wants: int, **fields: Any) -> Job:
    """A job that runs on these GPUs and is to have another number of workers."""
    return replace(a_job(name).needs(len(gpus)).runs_on(*gpus).made, requested_workers=wants, **fields)


def scheduler(*jobs: Job | JobBuilder, nodes: Sequence[Node] = (), **options: Any) -> Scheduler:
    made = Scheduler(nodes or [a_node("n", 4)], policies(**options))
    for job in jobs:
        made.observe(job.made if isinstance(job, JobBuilder) else job)
    return made


def decided(*jobs: Job | JobBuilder, **options: Any) -> Decision:
    return scheduler(*jobs, **options).decide(NOW)


def test_it_grows_into_idle_gpus() -> None:
    job = running("j", "n/0", "n/1", wants=4)
    made = scheduler(job)
    decision = made.decide(NOW)
    assert decision.rescales == {"j": 4}
    assert decision.preemptions["j"].reason is PreemptionReason.RESCALING
    assert (
        decision.preemptions["j"].message == "Stopping to restart with 4 workers instead of 2 (spec.workers)."
    )
    gone = replace(job, state=JobState.WAITING, placement=(), requested_workers=None)
    made.observe(replace(gone, demand=replace(job.demand, workers=4)))
    assert len(made.decide(NOW + 30).starts["j"]) == 4


def test_it_shrinks_and_others_get_the_rest() -> None:
    job = running("j", "n/0", "n/1", "n/2", "n/3", wants=1)
    made = scheduler(job, a_job("w").needs(3))
    assert made.decide(NOW).rescales == {"j": 1}
    made.observe(a_job("j").waiting(since=NOW).made)
    assert {key: len(workers) for key, workers in made.decide(NOW + 1).starts.items()} == {"j": 1, "w": 3}


@pytest.mark.parametrize(
    "others",
    [
        [a_job("r").needs(2).runs_on("n/2", "n/3")],
        [a_job("w").needs(2)],
        [a_job("l").needs(2).leaves("n/2", "n/3"), a_job("w").needs(2)],
    ],
    ids=["running", "starting now", "waiting for released GPUs"],
)
def test_it_runs_on_until_there_is_room(others: list[JobBuilder]) -> None:
    decision = decided(running("j", "n/0", "n/1", wants=4), *others)
    assert decision.rescales == {}
    assert "j" not in decision.preemptions
    assert decision.held_rescales["j"] == HeldRescale(
        HoldReason.NO_IDLE_GPUS,
        "Running with 2 workers. Restarts with 4 when enough GPUs are idle, the quota allows it and no earlier job waits for them.",
    )


def test_while_one_job_grows_no_other_one_is_rescaled() -> None:
    growing, shrinking = running("a", "n/0", wants=2), running("b", "n/1", "n/2", wants=1)
    assert decided(growing, shrinking).rescales == {"a": 2}
    assert decided(replace(shrinking, key="0"), growing).rescales == {"0": 1}
    stopped = replace(growing, state=JobState.TERMINATING)
    held = decided(stopped, shrinking)
    assert held.rescales == {}
    assert held.held_rescales["b"].reason is HoldReason.ANOTHER_RESCALE
    assert (
        decided(replace(shrinking, state=JobState.TERMINATING), running("c", "n/3", wants=2)).rescales == {}
    )
    other = running("c", "n/0", "n/3", wants=1)
    assert decided(shrinking, other).rescales == {"b": 1, "c": 1}


def test_it_is_not_stopped_twice_within_the_minimum_run_time() -> None:
    made = scheduler(running("j", "n/0", wants=2, rescaled_seconds=NOW - 100))
    decision = made.decide(NOW)
    assert decision.rescales == {}
    assert decision.held_rescales["j"].reason is HoldReason.MINIMUM_RUN_TIME
    assert "500 s" in decision.held_rescales["j"].message
    assert made.next_decision_seconds(NOW) == NOW + 400
    assert made.decide(NOW + 400).rescales == {"j": 2}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"unsaved_seconds": 700.0, "as_of_seconds": NOW}, HoldReason.UNSAVED_WORK),
        ({"starts_over": True}, HoldReason.DOES_NOT_RESUME),
    ],
)
def test_it_is_not_stopped_while_that_would_lose_its_work(fields: dict[str, Any], reason: HoldReason) -> None:
    for wants in (1, 3):
        decision = decided(running("j", "n/0", "n/1", wants=wants, **fields))
        assert decision.rescales == {}
        assert decision.held_rescales["j"].reason is reason


def test_it_keeps_its_place_if_its_node_takes_no_workers_any_more() -> None:
    cordoned = a_node("n", 4, cordoned=True)
    decision = decided(running("j", "n/0", "n/1", wants=1), nodes=[cordoned])
    assert decision.rescales == {}
    assert decision.held_rescales["j"].reason is HoldReason.NO_USABLE_NODES
    busy = a_job("r").needs(4).runs_on("m/0", "m/1", "m/2", "m/3")
    decision = decided(running("j", "n/0", "n/1", wants=1), busy, nodes=[cordoned, a_node("m", 4)])
    assert decision.rescales == {}
    assert decision.held_rescales["j"] == HeldRescale(
        HoldReason.NO_IDLE_GPUS,
        "Running with 2 workers. Restarts with 1 when enough GPUs are idle on other nodes: it could not start again on its own ones.",
    )


def test_it_does_not_wait_for_more_gpus_than_its_nodes_have() -> None:
    decision = decided(running("j", "n/0", "n/1", wants=6))
    assert decision.held_rescales["j"].reason is HoldReason.NO_USABLE_NODES


def test_it_grows_within_the_quota_of_its_namespace() -> None:
    options = {"admission": ("quota",), "admission_options": {"quota": {"limit_gpus": {"team": 3}}}}
    assert decided(running("team/j", "n/0", wants=4), **options).rescales == {}
    assert decided(running("team/j", "n/0", wants=3), **options).rescales == {"team/j": 3}


@pytest.mark.parametrize(("gpus", "rescales"), [(2, {}), (3, {"j": 3})])
def test_it_grows_on_the_model_of_its_round_only(gpus: int, rescales: dict[str, int]) -> None:
    """Else it would be stopped, and would not start on the GPUs of two models."""
    nodes = [a_node("a", gpus), a_node("t", 2, model="T4")]
    decision = decided(running("j", "a/0", wants=3), order="gavel-las", nodes=nodes)
    assert decision.rescales == rescales
    assert set(decision.held_rescales) == {"j"} - rescales.keys()


def test_it_does_not_pass_a_job_that_blocks_under_a_strict_order() -> None:
    wide = a_job("w").needs(4).created(0.0)
    job = running("j", "n/0", wants=2, created_seconds=1.0)
    assert decided(job, wide, order="fifo").rescales == {}
    assert decided(job, wide, order="fifo", order_options={"strict": False}).rescales == {"j": 2}


def test_a_truncated_decision_leaves_it_for_the_next_one() -> None:
    made = scheduler(running("j", "n/0", wants=2), a_job("a"), a_job("b"))
    assert made.decide(NOW, max_starts=1).rescales == {}


def test_a_suspended_job_is_only_stopped() -> None:
    decision = decided(running("j", "n/0", wants=2, suspended=True))
    assert decision.preemptions["j"].reason is PreemptionReason.SUSPENDED
    assert decision.rescales == decision.held_rescales == {}


@settings(max_examples=examples(100))
@given(snapshots(), st.data())
def test_a_stopped_job_starts_with_the_new_number_if_no_other_job_waits(
    case: tuple[ClusterSnapshot, Policies], data: st.DataObject
) -> None:
    """No gang loses its place by a rescale, whatever else runs, and whatever the policies."""
    snapshot, chosen = case
    running = [job for job in snapshot.jobs if job.state is JobState.RUNNING and not job.suspended]
    wanted = {job.key: data.draw(st.integers(1, 6), label=job.key) for job in running}
    made = Scheduler(snapshot.nodes, chosen)
    for job in running:
        workers = wanted[job.key]
        made.observe(replace(job, requested_workers=workers if workers != len(job.placement) else None))
    decision = made.decide(NOW)
    assert decision.rescales.keys() == decision.preemptions.keys()
    for job in running:
        if job.key in decision.rescales:
            waiting = replace(job, state=JobState.WAITING, placement=(), waiting_since_seconds=NOW)
            made.observe(replace(waiting, demand=replace(job.demand, workers=wanted[job.key])))
    starts = made.decide(NOW + 1).starts
    assert {key: len(workers) for key, workers in starts.items()} == decision.rescales
