"""How the scheduler calls the elastic policy and uses its answer; CPUs and memory after placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from laneway.lanes import LaneRules
from laneway.scheduling import (
    Demand,
    ForeignTenant,
    HostResources,
    Job,
    JobState,
    Node,
    Scheduler,
    WaitingCode,
    policies,
)
from laneway.scheduling.actions.worker_counts import REALLOT_SECONDS, RIGID_SECONDS
from laneway.scheduling.allocation.proportional import Proportional
from laneway.scheduling.elastic.policy import ElasticJob
from laneway.scheduling.model.plan import NOT_COMPETING

from tests.unit.core.scheduling.builders import NOW, a_job, a_node, planned
from tests.unit.core.scheduling.elastic.builders import TRAINED


@dataclass
class Recorded:
    """Gives each job a preset number of workers, and records its calls."""

    gives: dict[str, int]
    asked: list[tuple[list[str], dict[str, int]]] = field(default_factory=list)
    jobs: dict[str, ElasticJob] = field(default_factory=dict)
    """Those of the last call."""

    moments: list[float] = field(default_factory=list)

    def allot(
        self, jobs: Sequence[ElasticJob], free_gpus: Mapping[str, int], now_seconds: float
    ) -> Mapping[str, int]:
        self.asked.append((sorted(job.key for job in jobs), dict(free_gpus)))
        self.jobs = {job.key: job for job in jobs}
        self.moments.append(now_seconds)
        return {job.key: self.gives[job.key] for job in jobs}


def elastic_job(name: str, fewest: int = 1, most: int = 8) -> Job:
    return Job(name, Demand(workers=fewest, min_workers=fewest, max_workers=most), created_seconds=0.0)


def scheduler(elastic: Recorded, *jobs: Job, nodes: Sequence[Node] = ()) -> Scheduler:
    made = Scheduler(nodes or [a_node("n", 4)], replace(policies(order="fifo"), elastic=elastic))
    for job in jobs:
        made.observe(job)
    return made


def test_an_elastic_job_starts_with_the_workers_that_it_is_given() -> None:
    decision = scheduler(Recorded({"m": 3}), elastic_job("m")).decide(0.0)
    assert len(decision.starts["m"]) == 3


def test_one_that_is_given_none_waits_for_those_that_have_the_gpus() -> None:
    policy = Recorded({"m": 0, "k": 4})
    made = scheduler(policy, elastic_job("m", 2), elastic_job("k"))
    waiting = made.plan(0.0).waiting
    reason = waiting["m"]
    assert reason.code is WaitingCode.AWAITING_WORKERS
    assert reason.code not in NOT_COMPETING, "its wait counts"
    assert "needs 2 GPUs (2 workers) at least, and the 4 GPUs for elastic jobs go to k" in str(reason.message)
    assert (reason.blockers, reason.lacking_gpus, reason.position) == (("k",), 0, 1)
    made.observe(replace(a_job("k").needs(4).runs_on("n/0", "n/1", "n/2", "n/3").made, expected_seconds=50.0))
    assert made.start_estimates(made.plan(0.0).waiting, ["m"], 0.0)["m"].start_seconds == 50.0


def test_one_that_is_given_none_beside_rigid_jobs_lacks_gpus() -> None:
    rigid = a_job("r").needs(3).runs_on("n/0", "n/1", "n/2").made
    reason = scheduler(Recorded({"m": 0}), elastic_job("m", 2), rigid).plan(0.0).waiting["m"]
    assert (reason.code, reason.lacking_gpus) == (WaitingCode.AWAITING_WORKERS, 1)
    assert "jobs without a range of workers leave 1 to elastic jobs" in reason.message


def test_one_that_is_given_none_is_judged_by_the_fewest_workers_that_it_may_have() -> None:
    """Its spec asks for more than the cluster has; the policy may still give it fewer."""
    job = Job("m", Demand(workers=8, min_workers=1, max_workers=8), created_seconds=0.0)
    assert scheduler(Recorded({"m": 0}), job).plan(0.0).waiting["m"].code is WaitingCode.AWAITING_WORKERS


def test_one_that_is_to_have_others_starts_again() -> None:
    elastic = Recorded({"m": 2})
    running = a_job("m").needs(1).runs_on("n/0").made
    running = replace(running, demand=elastic_job("m").demand)
    made = scheduler(elastic, running)
    assert made.decide(499.0).rescales == {}, "it keeps its workers for the minimum run time"
    decision = made.decide(500.0)
    assert decision.rescales == {"m": 2}
    assert set(decision.preemptions) == {"m"}
    made.observe(replace(running, state=JobState.WAITING, placement=()))
    assert len(made.decide(501.0).starts["m"]) == 2
    assert len(elastic.asked) == 1, "nobody has come or gone"


def test_the_end_of_the_minimum_run_time_is_a_moment_to_decide_though_no_job_waits() -> None:
    running = a_job("m").needs(1).runs_on("n/0").made
    made = scheduler(Recorded({"m": 2}), replace(running, demand=elastic_job("m").demand))
    assert made.decide(470.0).rescales == {}
    assert made.next_decision_seconds(470.0) == 500.0 < 470.0 + REALLOT_SECONDS


def test_the_policy_rescales_no_job_that_would_lose_its_work() -> None:
    running = a_job("m").needs(1).runs_on("n/0").made
    running = replace(running, demand=elastic_job("m").demand, as_of_seconds=700.0)
    for unsaved_seconds, rescales in ((599.0, {"m": 2}), (601.0, {})):
        made = scheduler(Recorded({"m": 2}), replace(running, unsaved_seconds=unsaved_seconds))
        assert made.decide(700.0).rescales == rescales


def test_rigid_jobs_come_first_running_and_waiting() -> None:
    elastic = Recorded({"m": 1})
    scheduler(elastic, elastic_job("m"), a_job("r").runs_on("n/0").made, a_job("w").made).decide(0.0)
    assert elastic.asked == [(["m"], {"n": 2})]


def test_it_is_asked_when_jobs_come_and_go_and_every_so_often() -> None:
    elastic = Recorded({"m": 1, "k": 1})
    made = scheduler(elastic, elastic_job("m"))
    made.decide(0.0)
    assert made.next_decision_seconds(0.0) == REALLOT_SECONDS
    made.decide(REALLOT_SECONDS - 1)
    assert len(elastic.asked) == 1
    made.observe(elastic_job("k"))
    made.decide(REALLOT_SECONDS - 1)
    made.decide(2 * REALLOT_SECONDS)
    assert [jobs for jobs, _ in elastic.asked] == [["m"], ["k", "m"], ["k", "m"]]


def test_it_is_asked_soon_after_a_rigid_job_comes_or_goes_but_not_when_it_starts() -> None:
    elastic = Recorded({"m": 1})
    made = scheduler(elastic, elastic_job("m"))
    made.decide(0.0)
    rigid = a_job("r").needs(2)
    for moment, change, left in (
        (1.0, lambda: made.observe(rigid.made), None),
        (RIGID_SECONDS, lambda: None, 2),
        (6.0, lambda: made.observe(rigid.runs_on("n/0", "n/1").made), None),
        (7.0, lambda: made.observe(rigid.leaves("n/0", "n/1").made), None),
        (20.0, lambda: made.forget("r"), 4),
    ):
        before = len(elastic.asked)
        change()
        made.decide(moment)
        assert [free for _, free in elastic.asked[before:]] == ([] if left is None else [{"n": left}])
        if moment == 1.0:
            assert made.next_decision_seconds(moment) == RIGID_SECONDS


def test_the_gpus_of_a_job_that_ends_are_divided_at_once_and_only_once() -> None:
    """Its workers leave within seconds: asked without these GPUs, the policy would have to be asked again."""
    policy = Recorded({"m": 2, "k": 2})
    ending = replace(
        a_job("k").needs(2).runs_on("n/0", "n/1").made,
        demand=Demand(workers=2, min_workers=1, max_workers=4),
        state=JobState.TERMINATING,
        ends=True,
    )
    made = scheduler(policy, elastic_job("m"), ending)
    assert len(made.decide(0.0).starts["m"]) == 2
    assert policy.asked == [(["m"], {"n": 4})]
    made.forget("k")
    made.decide(RIGID_SECONDS + 1.0)
    assert len(policy.asked) == 1


def test_the_gpus_of_a_job_that_leaves_late_are_not_divided() -> None:
    """It may be elastic itself: until its workers have ended, it can start as little as others can on its GPUs."""
    policy = Recorded({"m": 2, "k": 2})
    late = replace(a_job("k").needs(2).leaves("n/0", "n/1").made, leaves_late=True)
    elastic = replace(late, demand=elastic_job("k", 2).demand)
    for job in (replace(late, ends=True), elastic, replace(elastic, ends=True)):
        made = scheduler(policy, elastic_job("m"), job)
        made.decide(0.0)
        assert policy.asked.pop() == (["m"], {"n": 2})
        made.forget("k")
        made.decide(RIGID_SECONDS)
        assert policy.asked.pop() == (["m"], {"n": 4})


def test_no_job_is_stopped_to_grow_into_gpus_of_one_that_leaves_late() -> None:
    """It would have no workers until then."""
    policy = Recorded({"m": 3, "k": 1})
    grows, shrinks = (
        replace(a_job(key).needs(2).runs_on(*gpus).made, demand=elastic_job(key).demand)
        for key, gpus in (("m", ("n/0", "n/1")), ("k", ("n/2", "n/3")))
    )
    assert scheduler(policy, grows, shrinks).decide(1000.0).rescales == {"m": 3, "k": 1}
    late = replace(shrinks, leaves_late=True)
    assert scheduler(policy, grows, late).decide(1000.0).rescales == {"k": 1}
    assert scheduler(policy, replace(grows, leaves_late=True), shrinks).decide(1000.0).rescales == {
        "m": 3,
        "k": 1,
    }, "its own GPUs are its own to wait for"


def test_the_gpus_of_a_deleted_job_are_divided_within_seconds() -> None:
    """It is gone at once. Its workers are foreign tenants until they are told to end, and nobody else comes or goes then."""
    policy = Recorded({"m": 2, "k": 2})
    deleted = replace(a_job("k").needs(2).runs_on("n/0", "n/1").made, demand=elastic_job("k", 2).demand)
    made = scheduler(policy, elastic_job("m"), deleted)
    made.decide(0.0)
    foreign = ForeignTenant("k", share_percent=100)
    made.forget("k")
    made.set_nodes([a_node("n", 4, foreign={0: [foreign], 1: [foreign]})])
    made.decide(1.0)
    made.set_nodes([a_node("n", 4)])
    made.decide(2.0)
    assert made.next_decision_seconds(2.0) == 1.0 + RIGID_SECONDS
    made.decide(1.0 + RIGID_SECONDS)
    assert policy.asked[1:] == [(["m"], {"n": 2}), (["m"], {"n": 4})]


def test_further_rigid_jobs_change_nothing_where_they_want_all_gpus() -> None:
    elastic = Recorded({"m": 0})
    made = scheduler(elastic, elastic_job("m"), a_job("r").needs(4).made)
    made.decide(0.0)
    made.observe(a_job("s").needs(1).made)
    made.decide(1.0)
    assert elastic.asked == [], "none is left to divide"


def test_a_rescale_within_the_minimum_run_time_is_due_at_its_end() -> None:
    running = replace(a_job("m").needs(1).runs_on("n/0").made, demand=elastic_job("m").demand)
    running = replace(running, started_seconds=50.0)
    made = scheduler(Recorded({"m": 2}), running)
    for moment in (60.0, 540.0):
        assert made.decide(moment).rescales == {}
    assert made.next_decision_seconds(540.0) == 550.0
    assert made.decide(550.0).rescales == {"m": 2}


def test_it_is_asked_at_the_moment_that_it_is_due() -> None:
    elastic = Recorded({"m": 1})
    made = scheduler(elastic, elastic_job("m"))
    made.decide(5.0)
    due = made.next_decision_seconds(5.0)
    assert due == 5.0 + REALLOT_SECONDS
    made.decide(due)
    assert elastic.moments == [5.0, due]


def test_without_elastic_jobs_it_is_never_asked() -> None:
    elastic = Recorded({"m": 1})
    made = scheduler(elastic, a_job("r").made)
    assert set(made.decide(0.0).starts) == {"r"}
    made.observe(a_job("r").runs_on("n/0").made)
    assert made.next_decision_seconds(0.0) is None
    made.observe(elastic_job("m"))
    made.decide(1.0)
    made.forget("m")
    made.decide(2.0)
    assert made.next_decision_seconds(2.0) is None
    assert elastic.moments == [1.0]


def test_it_is_told_all_that_it_needs_of_a_job() -> None:
    elastic = Recorded({"m": 3, "leaving": 0})
    running = replace(
        a_job("m").needs(3, gpus_per_worker=2).runs_on("a/0", "a/1", "b/0", "b/1", "b/2", "b/3").made,
        demand=Demand(workers=3, gpus_per_worker=2, min_workers=2, max_workers=5),
        created_seconds=7.0,
        attained_service_gpu_seconds=100.0,
        as_of_seconds=80.0,
        restarts=4,
        preemptible=False,
        goodput=TRAINED,
    )
    leaving = replace(a_job("leaving").leaves("c/0").made, demand=elastic_job("leaving").demand)
    nodes = [a_node(name, 4) for name in "abc"]
    scheduler(elastic, running, leaving, nodes=nodes).decide(90.0)
    assert elastic.jobs == {
        "m": ElasticJob("m", 2, 5, 7.0, (2, 1), 2, 100.0 + 10 * 6, 4, TRAINED, preemptible=False),
        "leaving": ElasticJob("leaving", 1, 8, 0.0),
    }


def test_gpus_are_kept_for_waiting_rigid_jobs_on_the_emptiest_nodes() -> None:
    for wanted, left in (
        (3, {"a": 2, "b": 1, "c": 1}),
        (5, {"a": 1, "b": 0, "c": 1}),
        (9, {"a": 2, "b": 4, "c": 1}),  # it waits for the rigid one
    ):
        elastic = Recorded({"m": 2})
        nodes = [a_node("a", 2), a_node("b", 4), a_node("c", 3)]
        rigid = [a_job("runs").needs(2).runs_on("c/0", "c/1"), a_job("waits").needs(wanted)]
        suspended = a_job("suspended").suspended()
        jobs = [elastic_job("m", 2), *(job.made for job in (*rigid, suspended))]
        scheduler(elastic, *jobs, nodes=nodes).decide(0.0)
        assert elastic.asked == [(["m"], left)]


def test_a_plan_divides_cpus_and_memory_among_those_that_hold_gpus() -> None:
    node = replace(a_node("n", 4), host=HostResources.of({"cpu": 32_000, "memory": 64 * 2**30}))
    found = planned(
        [node],
        a_job("runs").runs_on("n/0"),
        a_job("starts").share(50),
        by=replace(policies(order="fifo"), allocation=Proportional()),
    )
    assert {key: [each.cpu_millis for each in given] for key, given in found.allotments.items()} == {
        "runs": [8000],
        "starts": [4000],
    }
    assert not planned([node], a_job("starts")).allotments


def test_where_a_nodes_cpus_are_not_known_nothing_is_divided() -> None:
    chosen = replace(policies(order="fifo"), allocation=Proportional())
    assert not planned([a_node("n", 4)], a_job("starts"), by=chosen).allotments


def with_cpus(name: str, cpus: int, requests: int, *gpus: str, state: JobState = JobState.RUNNING) -> Job:
    """A job whose worker requests CPUs."""
    made = a_job(name).needs(requests=HostResources.of({"cpu": 1000 * requests})).runs_on(*gpus, state=state)
    return replace(made.made, cpu_floor_millis=1000 * cpus if cpus < requests else None)


def test_a_request_is_kept_unless_the_job_allows_less_and_paused_and_leaving_jobs_keep_theirs() -> None:
    node = replace(a_node("n", 4), host=HostResources.of({"cpu": 32_000, "memory": 64 * 2**30}))
    by = replace(policies(order="fifo"), allocation=Proportional())
    made = Scheduler([node], by)
    for job in (
        with_cpus("keeps", 16, 16, "n/0"),
        with_cpus("lends", 2, 4, "n/1"),
        with_cpus("pauses", 4, 4, "n/2", state=JobState.PAUSING),
        with_cpus("leaves", 2, 2, "n/3", state=JobState.TERMINATING),
    ):
        made.observe(job)
    found = made.allotments(made.decide(NOW))
    assert {key: [each.cpu_millis for each in given] for key, given in found.items()} == {
        "keeps": [16_000],
        "lends": [3333],  # a third of the 26 - 16 CPUs beside two idle GPUs
    }


def test_some_of_a_nodes_cpus_can_be_kept_from_growth() -> None:
    node = replace(a_node("n", 2), host=HostResources.of({"cpu": 16_000, "memory": 64 * 2**30}))
    by = replace(policies(order="fifo"), allocation=Proportional(), spare_cpu_percent=25)
    made = Scheduler([node], by)
    made.observe(with_cpus("a", 2, 2, "n/0"))
    assert made.allotments(made.decide(NOW))["a"][0].cpu_millis == 6000


def test_shares_that_a_node_no_longer_offers_do_not_stop_the_division() -> None:
    node = replace(a_node("n", 1), host=HostResources.of({"cpu": 16_000, "memory": 64 * 2**30}))
    made = Scheduler([node], replace(policies(order="fifo"), allocation=Proportional()))
    for name in ("a", "b"):
        made.observe(a_job(name).share(100).runs_on("n/0").made)
    assert [each[0].cpu_millis for each in made.allotments(made.decide(NOW)).values()] == [8000, 8000]


def test_a_gang_that_gets_one_worker_needs_no_lane_of_its_own() -> None:
    """The decision is checked with the workers that start, and not with those that the job asks for."""
    node = a_node("n", 2, lanes=LaneRules(max_lanes=1, padding_percent=0))
    made = Scheduler([node], replace(policies(order="fifo"), elastic=Recorded({"m": 1})))
    made.observe(a_job("gang").needs(2, share_percent=50).runs_on("n/0", "n/1").made)
    made.observe(Job("m", Demand(2, share_percent=50, min_workers=1, max_workers=2), created_seconds=1.0))
    assert len(made.decide(NOW).starts["m"]) == 1


def test_a_waiting_job_starts_within_its_new_range_of_workers() -> None:
    policy = Recorded({"m": 2})
    made = Scheduler([a_node("n", 4)], replace(policies(order="fifo"), elastic=policy))
    made.observe(elastic_job("m", 1, 2))
    made.decide(1.0, max_starts=0)
    policy.gives = {"m": 4}
    made.observe(elastic_job("m", 3, 4))
    assert len(made.decide(2.0).starts["m"]) == 4


def test_a_job_is_offered_no_more_workers_than_its_nodes_and_its_quota_allow() -> None:
    """Else it would be stopped for a number with which it never starts."""
    for options, nodes, most in (
        ({}, [a_node("n", 4), a_node("t", 4, model="T4")], 4),
        ({"limit_gpus": {"team": 3}}, [a_node("n", 8)], 3),
    ):
        elastic = Recorded({"team/m": 1})
        demand = Demand(workers=1, min_workers=1, max_workers=8, models=frozenset({"A100"}))
        for job in (
            Job("team/m", demand, created_seconds=0.0),
            replace(a_job("team/m").runs_on("n/0").made, demand=demand),
        ):
            chosen = policies(order="fifo", admission=("quota",), admission_options={"quota": options})
            made = Scheduler(nodes, replace(chosen, elastic=elastic))
            made.observe(job)
            made.decide(0.0)
            assert elastic.jobs["team/m"].max_workers == most


@pytest.mark.parametrize(("chosen", "gets"), [(4, 3), (3, 3), (2, 1), (1, 1)])
def test_a_job_gets_no_number_of_workers_with_which_it_fails(chosen: int, gets: int) -> None:
    """Whatever a policy says."""
    policy = Recorded({"m": chosen})
    job = replace(elastic_job("m"), avoided_workers=frozenset({2, 4}))
    assert len(scheduler(policy, job).decide(0.0).starts["m"]) == gets
    assert policy.jobs["m"].counts(3) == (0, 1)
    assert replace(policy.jobs["m"], explored_workers=4).counts(6) == (0, 1, 3)


def test_the_policy_is_asked_again_when_a_job_fails_with_a_number() -> None:
    policy = Recorded({"m": 2})
    made = scheduler(policy, elastic_job("m"))
    made.decide(0.0, max_starts=0)
    made.observe(replace(elastic_job("m"), avoided_workers=frozenset({2})))
    assert len(made.decide(1.0).starts["m"]) == 1


def test_a_job_without_a_place_for_more_workers_runs_on() -> None:
    running = replace(a_job("m").needs(1, gpus_per_worker=2).runs_on("a/0", "a/1").made)
    running = replace(running, demand=Demand(workers=1, gpus_per_worker=2, min_workers=1, max_workers=2))
    others = [a_job("x").runs_on("b/0").made, a_job("y").runs_on("c/0").made]
    nodes = [a_node(name, 2) for name in "abc"]
    assert scheduler(Recorded({"m": 2}), running, *others, nodes=nodes).decide(600.0).rescales == {}
    assert scheduler(Recorded({"m": 2}), running, others[0], nodes=nodes).decide(600.0).rescales == {"m": 2}
