"""What the user of a waiting job sees besides the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling import JobState, Node, PlacementMode, Policies, Scheduler, StartEstimate, policies
from laneway.scheduling.explain.forecast import Claim, GPUGroup, Holder, estimated_starts
from laneway.scheduling.model.gpu_class import class_of

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job, a_node

FIFO = policies(order="fifo")


def estimated(
    key: str, nodes: Sequence[Node], *jobs: JobBuilder, chosen: Policies = FIFO, trust: bool = True
) -> StartEstimate:
    scheduler = Scheduler(nodes, chosen)
    for job in jobs:
        scheduler.observe(job.made)
    planned = scheduler.plan(NOW)
    return scheduler.start_estimates(planned.waiting, [key], NOW, trust_durations=trust)[key]


def alternatives_of(key: str, nodes: Sequence[Node], *jobs: JobBuilder) -> tuple[str, ...]:
    scheduler = Scheduler(nodes, FIFO)
    for job in jobs:
        scheduler.observe(job.made)
    scheduler.plan(NOW)
    return scheduler.suggestions(key)


def lasting(job: JobBuilder, seconds: float | None, ran: float = 0.0) -> JobBuilder:
    """Its total time is known, and it has run a part of it."""
    return JobBuilder(replace(job.made, expected_seconds=seconds, executed_seconds=ran))


class TestAlternatives:
    @pytest.mark.parametrize(
        ("story", "job", "want"),
        [
            (
                "fewer workers",
                a_job("j").needs(4),
                ("workers: 3 instead of 4",),
            ),
            ("fewer GPUs", a_job("j").needs(gpus_per_worker=4), ("gpus.count: 3 instead of 4",)),
            ("nothing smaller is there", a_job("j").needs(models=("H100",), share_percent=60), ()),
            (
                "another model",
                a_job("j").needs(models=("H100",)),
                ("gpus.models left out, so that any model will do",),
            ),
            (
                "another level of enforcement",
                a_job("j").needs(minimum_enforcement="MPS"),
                ("minimumEnforcement: Watchdog instead of MPS",),
            ),
        ],
    )
    def test_one_change_of_each_kind_is_found(
        self, story: str, job: JobBuilder, want: tuple[str, ...]
    ) -> None:
        nodes = [a_node("n", 4)]
        others = [a_job("old").runs_on("n/0")]
        if story == "nothing smaller is there":
            others = [a_job(f"old{at}").runs_on(f"n/{at}") for at in range(4)]
        assert alternatives_of("j", nodes, *others, job.created(10)) == want, story

    def test_the_largest_share_that_is_free(self) -> None:
        old = a_job("old").share(70).runs_on("n/0")
        found = alternatives_of("j", [a_node("n", 1)], old, a_job("j").share(50).created(10))
        assert found == ("gpus.sharePercent: 30 instead of 50",)

    def test_a_gang_that_wants_one_node_is_told_that_it_could_be_spread(self) -> None:
        job = a_job("j").needs(2).laid(PlacementMode.CONSOLIDATE).created(10)
        nodes = [a_node("a", 1), a_node("b", 1), a_node("c", 2)]
        found = alternatives_of("j", nodes, a_job("x").runs_on("c/0"), job)
        assert found[0] == "placement: Auto instead of Consolidate"

    def test_each_of_them_does_start_when_it_is_made(self) -> None:
        nodes = [a_node("a", 2), a_node("b", 2)]
        old = a_job("old").needs(2).runs_on("a/0", "b/0")
        job = a_job("j").needs(4, share_percent=80).created(10)
        assert alternatives_of("j", nodes, old, job) == ("workers: 2 instead of 4",)
        scheduler = Scheduler(nodes, FIFO)
        scheduler.observe(old.made)
        scheduler.observe(replace(job.made, demand=replace(job.made.demand, workers=2)))
        assert "j" in scheduler.plan(NOW).starts


class TestAhead:
    def test_the_next_ones_are_named(self) -> None:
        jobs = [a_job(f"j{at}").created(float(at)) for at in range(8)]
        found = estimated("j7", [a_node("n", 1)], a_job("old").runs_on("n/0"), *jobs)
        assert found.ahead == ("j6", "j5", "j4", "j3", "j2")

    def test_who_cannot_run_at_all_is_ahead_of_nobody(self) -> None:
        jobs = [a_job("never").needs(9), a_job("j").created(5)]
        assert estimated("j", [a_node("n", 1)], a_job("old").runs_on("n/0"), *jobs).ahead == ()


class TestWhenItMayStart:
    node = (a_node("n", 2),)

    def test_when_those_that_run_end_by_their_own_word(self) -> None:
        old = [lasting(a_job(f"old{at}").runs_on(f"n/{at}"), 300.0, 100.0 * at) for at in (0, 1)]
        found = estimated("j", self.node, *old, a_job("j").needs(2).created(10))
        assert found.start_seconds == NOW + 300.0
        assert found.basis == "2 jobs hold GPUs that it can use; all run times are known."

    def test_who_says_nothing_goes_on_for_as_long_as_it_has_run(self) -> None:
        old = [lasting(a_job(f"old{at}").runs_on(f"n/{at}"), None, 500.0 * (at + 1)) for at in (0, 1)]
        found = estimated("j", self.node, *old, a_job("j").created(10))
        assert found.start_seconds == NOW + 500.0
        assert "0 of them have a known run time" in found.basis
        one = [lasting(old[0], 300.0, 500.0), old[1]]
        assert "1 of them has a known run time" in estimated("j", self.node, *one, a_job("j")).basis

    def test_what_is_said_can_be_left_aside(self) -> None:
        old = [lasting(a_job(f"old{at}").runs_on(f"n/{at}"), 1e6, 200.0) for at in (0, 1)]
        job = a_job("j").created(10)
        assert estimated("j", self.node, *old, job, trust=False).start_seconds == NOW + 200.0

    def test_those_ahead_take_what_becomes_free_first(self) -> None:
        old = [lasting(a_job(f"old{at}").runs_on(f"n/{at}"), 100.0 * (at + 1), 0.0) for at in (0, 1)]
        first = lasting(a_job("first").created(1), 1000.0)
        assert estimated("j", self.node, *old, first, a_job("j").created(2)).start_seconds == NOW + 200.0

    def test_who_fits_passes_who_does_not_as_the_planner_has_it(self) -> None:
        old = [lasting(a_job(f"old{at}").runs_on(f"n/{at}"), (100.0, 900.0)[at]) for at in (0, 1)]
        gang = lasting(a_job("gang").needs(2).created(1), 50.0)
        long = lasting(a_job("long").created(2), 1000.0)
        assert estimated("long", self.node, *old, gang, long).start_seconds == NOW + 100.0
        assert estimated("gang", self.node, *old, gang, long).start_seconds == NOW + 1100.0

    def test_who_is_preemptor_starts_soon(self) -> None:
        old = lasting(a_job("old").runs_on("n/0"), 1e6)
        urgent = a_job("urgent").needs(1).priority(5).created(10)
        found = estimated("urgent", [a_node("n", 1)], old, urgent)
        assert found.start_seconds == NOW + 30.0

    def test_a_job_falls_behind_when_its_queue_changes(self) -> None:
        tiresias = policies(
            order="tiresias-las",
            order_options={"thresholds_gpu_seconds": (100.0,)},
            preemption_options={"min_run_seconds": 0.0},
        )
        old = lasting(a_job("old").served(60.0).runs_on("n/0", since=NOW - 60.0), 1e6, 60.0)
        found = estimated("j", [a_node("n", 1)], old, a_job("j").created(10), chosen=tiresias)
        assert found.start_seconds == pytest.approx(NOW + 40.0 + 30.0)

    def test_who_never_fits_gets_no_estimate(self) -> None:
        found = estimated("j", self.node, a_job("j").needs(3))
        assert found.start_seconds is None
        assert found.basis == ""
        assert alternatives_of("j", self.node, a_job("j").needs(3)) == ("workers: 2 instead of 3",)

    def test_a_paused_job_has_no_suggestions(self) -> None:
        node = a_node("n", 1, percent=200)
        node = replace(node, gpus=tuple(replace(gpu, active_percent=100) for gpu in node.gpus))
        paused = a_job("paused").served(9000).runs_on("n/0", state=JobState.PAUSED)
        running = a_job("running").runs_on("n/0")
        assert alternatives_of("paused", [node], paused, running) == ()
        assert estimated("paused", [node], paused, running).start_seconds is None


GROUP = GPUGroup(class_of(a_node("n", 1).gpus[0]))


@settings(max_examples=examples(50))
@given(
    st.lists(st.tuples(st.integers(1, 8), st.floats(0, 1e4)), max_size=12),
    st.lists(st.tuples(st.integers(1, 8), st.floats(1, 1e4)), max_size=12),
)
def test_nobody_is_promised_what_is_not_free(
    held: list[tuple[int, float]], wanted: list[tuple[int, float]]
) -> None:
    holders = [Holder(f"h{at}", GROUP, 100 * gpus, NOW + left) for at, (gpus, left) in enumerate(held)]
    claims = [
        Claim(f"j{at}", (0, 0), frozenset({GROUP}), 100 * gpus, runs)
        for at, (gpus, runs) in enumerate(wanted)
    ]
    free = 300
    starts = estimated_starts(claims, holders, {GROUP: free}, NOW, 30.0)
    most = free + sum(holder.percent for holder in holders)
    assert all(claim.key in starts for claim in claims if claim.percent <= most)
    for moment in starts.values():
        running = sum(
            claim.percent
            for claim in claims
            if claim.key in starts and starts[claim.key] <= moment < starts[claim.key] + claim.run_seconds
        )
        ended = sum(holder.percent for holder in holders if holder.ends_seconds <= moment)
        assert running <= free + ended
