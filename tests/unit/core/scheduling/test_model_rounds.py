"""Rounds of Gavel's policy: who runs on which GPU model, and when that changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from laneway.scheduling import Decision, JobState, Node, Policies, PreemptionReason, Scheduler, policies
from laneway.scheduling.actions.model_rounds import SETTLE_SECONDS
from laneway.scheduling.elastic.policy import ElasticJob
from laneway.scheduling.model.gpu_speed import ModelSpeed

from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job, a_node

FAST, SLOW = a_node("fast", 1, model="V100"), a_node("slow", 1, model="K80")
BOTH = (FAST, SLOW)


def gavel(min_run: float = 0.0, **options: object) -> Policies:
    return policies(order="gavel-las", order_options=options, preemption_options={"min_run_seconds": min_run})


def speedy(job: JobBuilder, v100: float, k80: float = 1.0) -> JobBuilder:
    """It is so fast on each model."""
    speeds = (ModelSpeed("K80", k80), ModelSpeed("V100", v100))
    return JobBuilder(replace(job.made, speeds=speeds))


class Cluster:
    """A scheduler, and jobs that do at once what it decides."""

    def __init__(self, nodes: Sequence[Node] = BOTH, by: Policies | None = None) -> None:
        self.nodes = nodes
        self.by = by or gavel()
        self.scheduler = Scheduler(nodes, self.by)
        self.jobs: dict[str, JobBuilder] = {}

    def observe(self, *jobs: JobBuilder) -> None:
        for job in jobs:
            self.jobs[job.made.key] = job
            self.scheduler.observe(job.made)

    def decide(self, at: float) -> Decision:
        """Decide; what starts runs, and what is preempted has left."""
        decision = self.scheduler.decide(at)
        for key, placement in decision.starts.items():
            made = replace(
                self.jobs[key].made, state=JobState.RUNNING, placement=placement, started_seconds=at
            )
            self.observe(JobBuilder(replace(made, as_of_seconds=at)))
        for key in decision.preemptions:
            made = replace(self.jobs[key].made, state=JobState.WAITING, placement=(), started_seconds=None)
            self.observe(JobBuilder(replace(made, as_of_seconds=None)))
        return decision

    def settle(self, at: float) -> None:
        """Decide until nothing changes."""
        for _ in range(10):
            decision = self.decide(at)
            if not decision.starts and not decision.preemptions:
                return
        pytest.fail("it does not settle")

    @property
    def where(self) -> dict[str, str]:
        """The node of each job that runs."""
        return {key: job.made.placement[0].node for key, job in self.jobs.items() if job.made.placement}


def test_each_job_runs_where_it_gains_most() -> None:
    cluster = Cluster()
    cluster.observe(speedy(a_job("a"), v100=1.2), speedy(a_job("b"), v100=9))
    cluster.settle(NOW)
    assert cluster.where == {"a": "slow", "b": "fast"}


def test_where_speeds_do_not_count_each_job_runs_on_every_model() -> None:
    cluster = Cluster(by=gavel(heterogeneity_aware=False))
    cluster.observe(*(speedy(a_job(name), v100=9) for name in "abc"))
    ran: dict[str, set[str]] = {name: set() for name in "abc"}
    for number in range(12):
        cluster.settle(NOW + 360 * number)
        for key, node in cluster.where.items():
            ran[key].add(node)
    assert all(nodes == {"fast", "slow"} for nodes in ran.values())


def test_a_job_moves_at_the_beginning_of_a_round_only() -> None:
    cluster = Cluster()
    cluster.observe(speedy(a_job("a"), v100=1.2))
    cluster.settle(NOW)
    assert cluster.where == {"a": "fast"}
    cluster.observe(speedy(a_job("b").created(NOW), v100=9))
    cluster.settle(NOW + 10)
    assert cluster.where == {"a": "fast", "b": "slow"}, "a newcomer takes what is idle"
    assert cluster.scheduler.next_decision_seconds(NOW + 10) == NOW + 360
    cluster.settle(NOW + 360)
    assert cluster.where == {"a": "fast", "b": "slow"}, "the targets are kept for a while"
    cluster.observe(cluster.jobs["a"])
    decision = cluster.decide(NOW + 360 * 6)
    preemption = decision.preemptions["b"]
    assert (preemption.reason, preemption.preemptor) == (PreemptionReason.REASSIGNED, None)
    assert preemption.message == "Its round on K80 is over: it continues on V100."
    cluster.settle(NOW + 360 * 6)
    assert cluster.where == {"a": "slow", "b": "fast"}


@pytest.mark.parametrize(
    ("story", "change", "min_run"),
    [
        ("within its minimum run time", {}, 10_000.0),
        ("may not be preempted", {"preemptible": False}, 0.0),
        ("would lose too much", {"unsaved_seconds": 5000.0}, 0.0),
    ],
)
def test_a_job_that_may_not_be_stopped_keeps_its_gpus(
    story: str, change: dict[str, Any], min_run: float
) -> None:
    cluster = Cluster(by=gavel(min_run, reallocate_seconds=0))
    cluster.observe(JobBuilder(replace(speedy(a_job("a"), v100=1.2).made, **change)))
    cluster.settle(NOW)
    cluster.observe(speedy(a_job("b").created(NOW), v100=9))
    for number in range(4):
        cluster.settle(NOW + 360 * number)
    assert cluster.where["a"] == "fast", story


def test_jobs_that_are_not_assigned_leave_idle_gpus_to_those_that_still_wait_for_theirs() -> None:
    cluster = Cluster(by=gavel(reallocate_seconds=0))
    cluster.observe(*(speedy(a_job(name), v100=2) for name in "abc"))
    cluster.settle(NOW)
    leaving = next(key for key, node in cluster.where.items() if node == "fast")
    made = cluster.jobs[leaving].made
    decision = cluster.scheduler.decide(NOW + 360)
    assert leaving in decision.preemptions
    cluster.observe(JobBuilder(replace(made, state=JobState.TERMINATING)))
    # Another job is assigned the V100, which is not free yet; nobody who is not assigned takes the K80 meanwhile.
    late = speedy(a_job("late").created(NOW + 365), v100=2)
    cluster.scheduler.forget(next(key for key, node in cluster.where.items() if node == "slow"))
    cluster.observe(late)
    planned = cluster.scheduler.plan(NOW + 371)
    assert planned.starts == {}
    held_back = {
        key for key, why in planned.waiting.items() if "Other jobs run in this round" in str(why.message)
    }
    assert "late" in held_back
    assert cluster.scheduler.next_decision_seconds(NOW + 371) == NOW + 360 + SETTLE_SECONDS
    (started,) = cluster.scheduler.plan(NOW + 360 + SETTLE_SECONDS).starts
    assert started in held_back


def test_a_restart_of_the_operator_moves_nobody() -> None:
    wrong = [
        speedy(a_job("a").runs_on("fast/0"), v100=1.2),
        speedy(a_job("b").runs_on("slow/0"), v100=9),
    ]
    cluster = Cluster()
    cluster.observe(*wrong)
    assert cluster.decide(NOW).preemptions == {}
    assert cluster.decide(NOW + 360).preemptions.keys() == {"a", "b"}


def test_a_higher_priority_class_goes_first() -> None:
    cluster = Cluster(nodes=(FAST,))
    cluster.observe(speedy(a_job("a"), v100=9), speedy(a_job("urgent").priority(7), v100=9))
    for number in range(5):
        cluster.settle(NOW + 360 * number)
        assert cluster.where == {"urgent": "fast"}


def test_a_gang_that_no_single_model_holds_runs_across_models_and_stays() -> None:
    cluster = Cluster()
    cluster.observe(speedy(a_job("wide").needs(2), v100=2))
    cluster.settle(NOW)
    cluster.observe(speedy(a_job("small").created(NOW), v100=9))
    for number in range(4):
        cluster.settle(NOW + 360 * number)
        assert len(cluster.jobs["wide"].made.placement) == 2


def test_shares_of_one_gpu_count_as_shares() -> None:
    cluster = Cluster(nodes=(FAST,))
    cluster.observe(*(speedy(a_job(name).share(50), v100=2) for name in "ab"))
    cluster.settle(NOW)
    assert cluster.where == {"a": "fast", "b": "fast"}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"round_seconds": 0}, "round_seconds is 0"),
        ({"reallocate_seconds": -1}, "reallocate_seconds is -1"),
        ({"weights": {"team": 0}}, "the weight of namespace team is 0"),
    ],
)
def test_wrong_parameters_are_refused(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        gavel(**options)


class NoWorkersFor:
    """Gives one job no workers, and the others their fewest."""

    def __init__(self, key: str) -> None:
        self.key = key

    def allot(self, jobs: Sequence[ElasticJob], *_: object) -> dict[str, int]:
        return {job.key: 0 if job.key == self.key else job.min_workers for job in jobs}


def test_nobody_is_stopped_in_a_round_for_a_job_that_gets_no_workers() -> None:
    """It has had the least of its share, so it would take part in every round, and could not start in any."""
    cluster = Cluster([a_node("n", 2)], replace(gavel(), elastic=NoWorkersFor("none")))
    cluster.observe(a_job("a"), a_job("b").needs(1, min_workers=1, max_workers=2))
    cluster.observe(a_job("none").needs(1, min_workers=1, max_workers=2))
    cluster.settle(NOW)
    for number in range(1, 6):
        assert not cluster.decide(NOW + 360 * number).preemptions
    assert cluster.where == {"a": "n", "b": "n"}


def test_nobody_is_stopped_for_a_job_that_has_no_place_even_then() -> None:
    """By their number, one GPU is left beside two halves; but no GPU is whole."""
    cluster = Cluster([a_node("n", 2)], gavel())
    cluster.observe(
        *(a_job(f"half{at}").share(50).never_preempted().runs_on(f"n/{at}") for at in range(2)),
        a_job("stays").share(50).runs_on("n/0"),
        a_job("whole"),
    )
    cluster.settle(NOW)
    for number in range(1, 6):
        assert not cluster.decide(NOW + 360 * number).preemptions
