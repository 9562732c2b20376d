"""Which jobs start, stay and are preempted. Whole GPUs unless said otherwise; preemption needs no minimum run."""

from __future__ import annotations

from laneway.api.enforcement import Enforcement
from laneway.scheduling import ForeignTenant, JobState, PreemptionReason, policies

from tests.unit.core.scheduling.builders import NOW, a_job, a_node, eager, gpus_of, planned

LOW = 5000.0
"""Service of a job in the second queue."""


def test_an_empty_cluster_and_no_jobs_make_an_empty_plan() -> None:
    plan = planned([])
    assert [*plan.starts, *plan.waiting, *plan.keeps, *plan.preemptions] == []


def test_jobs_take_what_is_free_in_order_and_small_ones_may_pass() -> None:
    plan = planned(
        [a_node("n", 4)],
        a_job("a").needs(3).created(1),
        a_job("b").needs(2).created(2),
        a_job("c").created(3),
        a_job("d").created(4),
    )
    assert set(plan.starts) == {"a", "c"}
    assert list(plan.waiting) == ["b", "d"]
    assert [reason.position for reason in plan.waiting.values()] == [1, 2]


def test_a_job_starts_only_where_it_is_held_as_it_demands() -> None:
    nodes = [a_node("m", 2), a_node("n", 1, enforcement="MPS")]
    strict = a_job("strict").needs(minimum_enforcement=Enforcement.MPS)
    plan = planned(nodes, strict, a_job("late").needs(minimum_enforcement=Enforcement.MPS).created(NOW))
    assert gpus_of(plan, "strict") == ["n/0"]
    assert plan.waiting["late"].code == "GPUsBusy"


def test_a_gang_starts_whole_or_not_at_all() -> None:
    plan = planned([a_node("m", 2), a_node("n", 1)], a_job("x").runs_on("n/0"), a_job("gang").needs(3))
    assert not plan.starts
    assert plan.waiting["gang"].lacking_gpus == 1


def test_a_running_job_keeps_its_place_from_a_job_of_its_own_queue() -> None:
    plan = planned([a_node("n", 1)], a_job("a").served(3000).runs_on("n/0"), a_job("b"))
    assert plan.keeps == ("a",)
    assert not plan.preemptions


def test_a_job_of_a_higher_queue_makes_a_lower_one_give_way() -> None:
    plan = planned([a_node("n", 1)], a_job("long").served(LOW).runs_on("n/0"), a_job("short"))
    victim = plan.preemptions["long"]
    assert (victim.reason, victim.preemptor) == (PreemptionReason.HIGHER_QUEUE, "short")
    assert str(victim.message) == "Preempted by short (queue 0 before queue 1)."
    assert not plan.starts, "its GPU is not free before its workers are gone"
    assert plan.waiting["short"].code == "AwaitingPreemption"
    assert plan.waiting["short"].blockers == ("long",)


def test_fifo_makes_nobody_give_way() -> None:
    plan = planned(
        [a_node("n", 1)], a_job("long").created(5).runs_on("n/0"), a_job("short"), by=eager("fifo")
    )
    assert not plan.preemptions


def test_under_fifo_nobody_passes_a_job_that_waits_for_room() -> None:
    jobs = [
        a_job("running").created(0).runs_on("n/0"),
        a_job("gang").needs(2).created(1),
        a_job("small").created(2),
    ]
    plan = planned([a_node("n", 2)], *jobs, by=eager("fifo"))
    assert not plan.starts
    assert plan.waiting["small"].code == "BehindOthers"
    assert plan.waiting["small"].blockers == ("gang",)
    assert set(planned([a_node("n", 2)], *jobs, by=eager("fifo", strict=False)).starts) == {"small"}


def test_under_las_nobody_passes_a_gang_whose_patience_is_at_its_end() -> None:
    nodes = [a_node("n", 2), a_node("t", 1, model="T4")]
    jobs = [
        a_job("running").runs_on("n/0"),
        a_job("gang").needs(2, models=["A100"]).waiting(NOW - 100).created(NOW - 100),
        a_job("small").needs(models=["A100"]).created(NOW),
        a_job("elsewhere").needs(models=["T4"]).created(NOW),
    ]
    patient, impatient = eager(patience_seconds=101), eager(patience_seconds=100)
    assert set(planned(nodes, *jobs, by=patient).starts) == {"small", "elsewhere"}
    plan = planned(nodes, *jobs, by=impatient)
    assert set(plan.starts) == {"elsewhere"}
    assert plan.waiting["small"].code == "BehindOthers"
    assert plan.waiting["small"].blockers == ("gang",)


def test_a_job_that_cannot_run_at_all_holds_nobody_up() -> None:
    plan = planned(
        [a_node("n", 2)],
        a_job("huge").needs(5).created(1),
        a_job("off").suspended().created(2),
        a_job("small").created(3),
        by=eager("fifo"),
    )
    assert set(plan.starts) == {"small"}


def test_a_higher_priority_makes_a_lower_one_give_way_under_any_order() -> None:
    plan = planned(
        [a_node("n", 1)], a_job("low").runs_on("n/0"), a_job("high").priority(10), by=eager("fifo")
    )
    assert plan.preemptions["low"].reason is PreemptionReason.HIGHER_PRIORITY
    assert "(priority 10 before 0)" in str(plan.preemptions["low"].message)


def test_a_lower_priority_never_does_whatever_its_queue() -> None:
    plan = planned([a_node("n", 1)], a_job("high").served(LOW).priority(10).runs_on("n/0"), a_job("low"))
    assert not plan.preemptions


def test_the_last_in_the_order_is_preempted_first() -> None:
    plan = planned(
        [a_node("n", 3)],
        a_job("second").served(LOW).runs_on("n/0", since=1),
        a_job("third").served(9000).runs_on("n/1"),
        a_job("first").served(100).runs_on("n/2"),
        a_job("new"),
    )
    assert list(plan.preemptions) == ["third"]


def test_no_job_is_preempted_in_vain() -> None:
    plan = planned(
        [a_node("m", 1), a_node("n", 4)],
        a_job("small").served(LOW).runs_on("m/0", since=9),
        a_job("large").needs(4).served(LOW).runs_on("n/0", "n/1", "n/2", "n/3", since=1),
        a_job("new").needs(gpus_per_worker=4),
    )
    assert list(plan.preemptions) == ["large"], "small goes last in the order, and does not help"


def test_no_job_is_preempted_for_a_gang_that_would_not_fit_anyway() -> None:
    plan = planned(
        [a_node("n", 2)],
        a_job("long").served(LOW).runs_on("n/0"),
        a_job("safe").served(10).runs_on("n/1"),
        a_job("gang").needs(2),
    )
    assert not plan.preemptions
    assert plan.waiting["gang"].code == "GPUsBusy"


def test_only_preemptible_jobs_are_preempted() -> None:
    plan = planned([a_node("n", 1)], a_job("long").served(LOW).never_preempted().runs_on("n/0"), a_job("new"))
    assert not plan.preemptions


def test_a_job_that_has_just_started_is_left_to_run() -> None:
    chosen = policies(preemption_options={"min_run_seconds": 60})
    recent = a_job("long").served(LOW).runs_on("n/0", since=NOW - 59)
    settled = a_job("long").served(LOW).runs_on("n/0", since=NOW - 60)
    assert not planned([a_node("n", 1)], recent, a_job("new"), by=chosen).preemptions
    assert planned([a_node("n", 1)], settled, a_job("new"), by=chosen).preemptions


def test_a_starting_job_is_left_to_start() -> None:
    plan = planned([a_node("n", 1)], a_job("long").served(LOW).starts_on("n/0"), a_job("new"))
    assert plan.keeps == ("long",)
    assert not plan.preemptions


def test_fractions_are_preempted_for_fractions() -> None:
    plan = planned(
        [a_node("n", 1)],
        a_job("half").share(50).served(LOW).runs_on("n/0", since=1),
        a_job("third").share(30).served(LOW).runs_on("n/0", since=2),
        a_job("new").share(40),
    )
    assert list(plan.preemptions) == ["third"], "its 30 percent and the 20 that are free will do"


def test_a_leaving_job_holds_its_gpus_until_it_is_gone() -> None:
    plan = planned([a_node("n", 1)], a_job("old").leaves("n/0"), a_job("new"))
    assert not plan.starts
    assert plan.waiting["new"].code == "AwaitingRelease"
    assert plan.waiting["new"].blockers == ("old",)
    assert "old" not in {*plan.keeps, *plan.preemptions, *plan.waiting}


def test_no_more_jobs_are_preempted_than_needed_beside_those_that_leave() -> None:
    plan = planned(
        [a_node("n", 2)],
        a_job("gone").served(LOW).leaves("n/0"),
        a_job("long").served(LOW).runs_on("n/1"),
        a_job("new"),
    )
    assert not plan.preemptions


def test_what_is_free_is_kept_for_a_gang_until_the_rest_is_left() -> None:
    plan = planned(
        [a_node("n", 2)],
        a_job("old").leaves("n/0"),
        a_job("gang").needs(2).created(1),
        a_job("small").created(2),
    )
    assert not plan.starts, "small would make the gang wait longer"
    assert plan.waiting["gang"].code == "AwaitingRelease"
    assert plan.waiting["small"].code == "GPUsBusy"


def test_beside_a_share_that_is_kept_there_is_room_for_another() -> None:
    plan = planned(
        [a_node("n", 1)],
        a_job("old").share(60).leaves("n/0"),
        a_job("kept").share(50).created(1),
        a_job("small").share(40).created(2),
    )
    assert set(plan.starts) == {"small"}
    assert set(plan.waiting) == {"kept"}


def test_two_jobs_do_not_count_on_the_same_departure() -> None:
    plan = planned(
        [a_node("n", 2)],
        a_job("long").served(LOW).runs_on("n/0", since=1),
        a_job("longer").served(LOW).runs_on("n/1", since=2),
        a_job("a").created(1),
        a_job("b").created(2),
    )
    assert {v.preemptor for v in plan.preemptions.values()} == {"a", "b"}


def test_a_suspended_job_waits_and_a_suspended_running_job_stops() -> None:
    plan = planned(
        [a_node("n", 2)], a_job("a").suspended(), a_job("b").suspended().never_preempted().runs_on("n/0")
    )
    assert plan.waiting["a"].code == "Suspended"
    assert plan.waiting["a"].position == 0
    assert plan.preemptions["b"].reason is PreemptionReason.SUSPENDED
    assert plan.preemptions["b"].preemptor is None


def test_a_suspended_job_goes_before_anybody_is_preempted() -> None:
    plan = planned(
        [a_node("n", 2)],
        a_job("off").suspended().runs_on("n/0"),
        a_job("long").served(LOW).runs_on("n/1"),
        a_job("new"),
    )
    assert list(plan.preemptions) == ["off"]


def test_a_promoted_job_takes_the_place_of_a_lower_one() -> None:
    plan = planned(
        [a_node("n", 1)],
        a_job("patient").served(LOW, executed=50).waiting(NOW - 400),
        a_job("running").served(LOW).runs_on("n/0"),
        by=eager(promotion_factor=8),
    )
    assert list(plan.preemptions) == ["running"]
    assert plan.promotions == ("patient",)


def test_placements_on_a_node_that_is_gone_change_nothing() -> None:
    plan = planned([a_node("n", 1)], a_job("lost").runs_on("gone/0"), a_job("new"))
    assert plan.keeps == ("lost",)
    assert gpus_of(plan, "new") == ["n/0"]


def test_running_jobs_stay_where_more_is_held_than_the_gpu_offers() -> None:
    nodes = [a_node("n", 2, foreign={0: [ForeignTenant("pod", 80)]})]
    plan = planned(nodes, a_job("a").share(50).runs_on("n/0"), a_job("b").share(10))
    assert plan.keeps == ("a",)
    assert gpus_of(plan, "b") == ["n/1"]


def test_jobs_stay_on_a_cordoned_node_and_nobody_comes() -> None:
    plan = planned([a_node("n", 2, cordoned=True)], a_job("a").runs_on("n/0"), a_job("b"))
    assert plan.keeps == ("a",)
    assert plan.waiting["b"].code == "NodesUnavailable"


def test_a_job_with_a_placement_is_not_waiting_and_one_without_is() -> None:
    assert a_job("a").runs_on("n/0").made.state is JobState.RUNNING
    assert a_job("a").made.waited_seconds(NOW) == NOW
    assert a_job("a").runs_on("n/0").made.waited_seconds(NOW) == 0
    assert a_job("team/a").made.namespace == "team"
