"""Start estimates of whole clusters: which jobs count as holders, when they become preemptible, what is assumed of run times."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from laneway.scheduling import (
    HostResources,
    Job,
    JobState,
    Node,
    Policies,
    Scheduler,
    StartEstimate,
    WaitingCode,
    policies,
)
from laneway.scheduling.explain.start_estimates import ESTIMATED
from laneway.scheduling.model.gpu_speed import ModelSpeed, SpeedBasis
from laneway.scheduling.order.policy import Rank
from laneway.scheduling.order.tiresias_las import TiresiasLAS

from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job, a_node

FIFO = policies(order="fifo")
ONE = (a_node("n", 1),)
TWO = (a_node("n", 2),)


def tiresias(*thresholds: float, min_run: float = 0.0) -> Policies:
    return policies(
        order="tiresias-las",
        order_options={"thresholds_gpu_seconds": thresholds},
        preemption_options={"min_run_seconds": min_run},
    )


@dataclass(frozen=True)
class Backwards(TiresiasLAS):
    """Returns the ranks in another order than it is given the jobs, and checks what it is told of the cluster."""

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        assert cluster_gpus == 2
        found = TiresiasLAS.ranks(self, jobs, cluster_gpus, now_seconds)
        return dict(reversed(list(found.items())))


def estimates(
    nodes: Sequence[Node], *jobs: JobBuilder, chosen: Policies = FIFO, trust: bool = True
) -> dict[str, StartEstimate]:
    """The estimates of all waiting jobs."""
    scheduler = Scheduler(nodes, chosen)
    for job in jobs:
        scheduler.observe(job.made)
    waiting = scheduler.plan(NOW).waiting
    return dict(scheduler.start_estimates(waiting, list(waiting), NOW, trust_durations=trust))


def starts(
    nodes: Sequence[Node], *jobs: JobBuilder, chosen: Policies = FIFO, trust: bool = True
) -> dict[str, object]:
    """Seconds from now until each waiting job starts."""
    return {
        key: None if found.start_seconds is None else pytest.approx(found.start_seconds - NOW)
        for key, found in estimates(nodes, *jobs, chosen=chosen, trust=trust).items()
    }


def lasting(job: JobBuilder, seconds: float | None, ran: float = 0.0) -> JobBuilder:
    """Its total time is known, and it has run a part of it."""
    return JobBuilder(replace(job.made, expected_seconds=seconds, executed_seconds=ran))


def old(name: str, gpu: str, left: float) -> JobBuilder:
    """It runs for a known time from now, and is not preempted."""
    return lasting(a_job(name).runs_on(gpu).never_preempted(), left)


def new(name: str, at: float, runs: float = 1e6) -> JobBuilder:
    return lasting(a_job(name).created(at), runs)


class TestHolders:
    def test_all_that_it_needs_has_to_be_free(self) -> None:
        assert starts(TWO, old("b", "n/1", 300), new("gang", 1).needs(2)) == {"gang": 300.0}
        olds = [old("a", "n/0", 200), old("b", "n/1", 300)]
        assert starts(TWO, *olds, new("gang", 1).needs(2)) == {"gang": 300.0}

    def test_a_paused_job_gives_nothing_when_it_ends(self) -> None:
        gpus = (replace(a_node("n", 1, percent=200).gpus[0], active_percent=100),)
        paused = lasting(a_job("a-paused").served(9).runs_on("n/0", state=JobState.PAUSED), 100.0)
        found = estimates([replace(ONE[0], gpus=gpus)], paused, old("runs", "n/0", 1000.0), new("j", 5))
        assert found["j"].start_seconds == NOW + 1000.0
        assert re.findall(r"\d+", found["j"].basis) == ["1"]

    def test_a_job_whose_node_is_gone_gives_nothing_when_it_ends(self) -> None:
        gone = lasting(a_job("gone").runs_on("away/0"), 100.0)
        assert starts(ONE, gone, old("runs", "n/0", 1000.0), new("j", 5)) == {"j": 1000.0}

    def test_a_job_on_a_cordoned_node_gives_nothing_to_others(self) -> None:
        nodes = [*ONE, a_node("c", 1, model="T4", cordoned=True)]
        olds = [old("there", "c/0", 100.0), old("runs", "n/0", 1000.0)]
        assert starts(nodes, *olds, new("j", 5)) == {"j": 1000.0}

    def test_time_since_the_record_counts(self) -> None:
        running = replace(old("runs", "n/0", 400.0).made, executed_seconds=100.0, as_of_seconds=NOW - 50)
        assert starts(ONE, JobBuilder(running), new("j", 5)) == {"j": 250.0}

    def test_a_releasing_job_is_gone_soon_and_is_no_job_of_unknown_run_time(self) -> None:
        found = estimates(ONE, a_job("gone").leaves("n/0"), new("j", 5), new("k", 6))
        assert found["j"].start_seconds == NOW + 30.0
        assert "all run times are known" in found["k"].basis

    def test_the_basis_counts_jobs_on_all_classes_that_it_can_use(self) -> None:
        nodes = [*ONE, a_node("t", 1, model="T4")]
        gang = new("gang", 1).needs(2)
        found = estimates(nodes, old("runs", "n/0", 100.0), gang)["gang"]
        assert found.start_seconds == NOW + 100.0
        assert re.findall(r"\d+", found.basis) == ["1"]
        assert "all run times are known" in found.basis
        both = estimates(nodes, old("runs", "n/0", 100.0), a_job("silent").runs_on("t/0"), gang)["gang"]
        assert re.findall(r"\d+", both.basis) == ["2", "1"]


class TestAssumedRunTimes:
    def test_a_waiting_job_of_unknown_run_time_runs_as_long_as_others_do(self) -> None:
        running = lasting(a_job("old").runs_on("n/0"), None, 500.0)
        running = JobBuilder(replace(running.made, as_of_seconds=NOW - 100.0))
        silent, next_one = a_job("silent").created(1), a_job("next").created(2)
        assert starts(ONE, running, silent, next_one) == {"silent": 600.0, "next": 600.0 + 1200.0}

    def test_where_nothing_runs_some_minutes_are_assumed(self) -> None:
        found = starts(ONE, a_job("gone").leaves("n/0"), a_job("j").created(1), a_job("k").created(2))
        assert found == {"j": 30.0, "k": 630.0}

    def test_expected_run_times_of_waiting_jobs_can_be_left_out_as_well(self) -> None:
        running = lasting(a_job("old").runs_on("n/0"), 1e6, 500.0)
        jobs = [running, new("first", 1, runs=7.0), new("second", 2)]
        assert starts(ONE, *jobs, trust=False) == {"first": 500.0, "second": 1500.0}


class TestSharedGPUs:
    @staticmethod
    def node() -> Node:
        """One GPU with `sharing: lanes`."""
        node = a_node("n", 1, percent=800)
        return replace(node, gpus=tuple(replace(gpu, active_percent=400) for gpu in node.gpus))

    def test_what_only_jobs_that_join_others_could_have_is_not_free(self) -> None:
        found = starts([self.node()], old("runs", "n/0", 900.0), new("a", 1, runs=7.0), new("b", 2))
        assert found == {"a": 900.0, "b": 907.0}

    def test_a_gpu_of_two_jobs_is_free_once_both_have_ended(self) -> None:
        jobs = [old("one", "n/0", 900.0), old("other", "n/0", 500.0), new("a", 1)]
        assert starts([self.node()], *jobs) == {"a": 900.0}


class TestLine:
    def test_the_first_job_is_ahead_of_the_second(self) -> None:
        found = estimates(ONE, old("runs", "n/0", 9.0), new("first", 1), new("second", 2), new("third", 3))
        assert found["first"].ahead == ()
        assert found["second"].ahead == ("first",)
        assert found["third"].ahead == ("second", "first")

    def test_a_job_that_is_not_in_line_has_none_ahead(self) -> None:
        found = estimates(ONE, old("runs", "n/0", 9.0), new("first", 1), new("never", 2).needs(9))
        assert found["never"] == StartEstimate()

    def test_only_the_first_jobs_get_an_estimate(self) -> None:
        jobs = [new(f"j{at:03}", float(at), runs=1.0) for at in range(ESTIMATED + 2)]
        found = estimates(ONE, old("runs", "n/0", 9.0), *jobs)
        assert {key for key, each in found.items() if each.start_seconds is None} == {"j128", "j129"}
        assert found["j129"].ahead[0] == "j128"

    def test_a_preemptor_gets_its_victims_gpus_also_if_another_job_is_ahead(self) -> None:
        quota = policies(
            order="fifo",
            order_options={"strict": False},
            admission=("quota",),
            admission_options={"quota": {"limit_gpus": {"a": 0}}},
        )
        victim = lasting(a_job("b/old").runs_on("n/0"), 1e6)
        jobs = [new("a/refused", 1, runs=500.0).priority(5), new("b/urgent", 2, runs=500.0).priority(5)]
        found = starts(ONE, victim, *jobs, chosen=quota)
        assert found == {"a/refused": 530.0, "b/urgent": 30.0}

    def test_a_job_whose_nodes_are_all_unavailable_gets_no_estimate(self) -> None:
        nodes = [a_node("n", 1, cordoned=True), a_node("t", 1, model="T4")]
        jobs = [new("j", 1).needs(models=("A100",)), old("runs", "t/0", 50.0), new("k", 2)]
        assert starts(nodes, *jobs, chosen=tiresias(100.0)) == {"j": None, "k": 50.0}

    def test_gpus_of_nodes_that_cannot_hold_a_worker_do_not_count(self) -> None:
        small, large = (
            replace(a_node(name, 1), host=HostResources.of({"cpu": 1000 * cpus}))
            for name, cpus in (("s", 4), ("l", 8))
        )
        wide = new("wide", 1).needs(requests=HostResources.of({"cpu": 6000}))
        narrow = new("narrow", 2).needs(requests=HostResources.of({"cpu": 1000}))
        runs = [old("short", "s/0", 10.0), old("long", "l/0", 500.0)]
        assert starts([small, large], *runs, wide, narrow) == {"wide": 500.0, "narrow": 10.0}
        found = estimates([small, large], *runs, wide, narrow)
        assert re.findall(r"\d+", found["wide"].basis) == ["1"]

    def test_a_job_that_waits_for_pods_that_are_no_workers_gets_no_estimate(self) -> None:
        left, capacity = (HostResources.of({"cpu": 1000 * cpus}) for cpus in (2, 8))
        nodes = [replace(a_node("n", 2), host=left, host_capacity=capacity)]
        gang = new("gang", 1).needs(2, requests=HostResources.of({"cpu": 2000}))
        assert starts(nodes, gang) == {"gang": None}


class TestPreemptionOfRunningJobs:
    def test_a_protected_job_of_a_later_queue_is_preempted_when_its_minimum_run_ends(self) -> None:
        running = lasting(a_job("old").served(9000.0).runs_on("n/0", since=NOW - 20), 1e6, 9000.0)
        found = starts(ONE, running, new("j", 10), chosen=tiresias(100.0, min_run=60.0))
        assert found == {"j": 40.0 + 30.0}

    @pytest.mark.parametrize(
        ("story", "changes"),
        [
            ("it is never preempted", {"preemptible": False}),
            ("it is of a higher priority", {"priority": 5}),
        ],
    )
    def test_a_job_that_falls_keeps_its_gpus_where(self, story: str, changes: dict[str, int]) -> None:
        falling = lasting(a_job("old").served(60.0).runs_on("n/0", since=NOW - 60.0), 1060.0, 60.0)
        falling = JobBuilder(replace(falling.made, **changes))  # type: ignore[arg-type]
        waiting = new("j", 10).priority(3 if "priority" in changes else 0)
        assert starts(ONE, falling, waiting, chosen=tiresias(100.0)) == {"j": 1000.0}, story

    def test_a_job_is_not_preempted_by_one_of_the_queue_that_it_falls_to(self) -> None:
        falling = lasting(a_job("old").served(60.0).runs_on("n/0", since=NOW - 60.0), 1060.0, 60.0)
        equal = new("equal", 10).served(150.0)
        equal = lasting(equal, 1e6, 150.0)
        assert starts(ONE, falling, equal, chosen=tiresias(100.0, 200.0)) == {"equal": 1000.0}

    def test_where_the_order_has_no_queues_no_preemption_is_foreseen(self) -> None:
        srtf = policies(order="srtf", preemption_options={"min_run_seconds": 60.0})
        running = lasting(a_job("old").runs_on("n/0", since=NOW - 20), 1000.0)
        assert starts(ONE, running, new("j", 1, runs=10.0), new("k", 2), chosen=srtf) == {
            "j": 1000.0,
            "k": 1010.0,
        }
        olds = [old("a", "n/0", 100.0), old("b", "n/1", 200.0)]
        silent = a_job("silent").created(1)
        assert starts(TWO, *olds, new("gang", 2, runs=10.0).needs(2), silent, chosen=srtf) == {
            "gang": 100.0 + 150.0,
            "silent": 100.0,
        }


class TestPreemptionOfJobsThatStart:
    """A job starts at NOW + 50, on the only GPU, and falls into another queue 100 s later."""

    running = old("old", "n/0", 50.0)

    @pytest.mark.parametrize(("min_run", "want"), [(0.0, 150.0 + 30.0), (400.0, 450.0 + 30.0)])
    def test_the_next_one_preempts_it_once_it_has_fallen_and_run_for_the_minimum(
        self, min_run: float, want: float
    ) -> None:
        found = starts(ONE, self.running, new("j", 1), new("k", 2), chosen=tiresias(100.0, min_run=min_run))
        assert found == {"j": 50.0, "k": want}

    @pytest.mark.parametrize(
        ("story", "first", "second"),
        [
            ("the first is never preempted", new("j", 1, 1000.0).never_preempted(), new("k", 2)),
            ("the first is of a higher priority", new("j", 1, 1000.0).priority(5), new("k", 2)),
            (
                "the second is of the queue that the first falls to",
                new("j", 1, 1000.0),
                lasting(new("k", 2).served(150.0), 1e6, 150.0),
            ),
        ],
    )
    def test_the_next_one_waits_for_its_end_where(
        self, story: str, first: JobBuilder, second: JobBuilder
    ) -> None:
        found = starts(ONE, self.running, first, second, chosen=tiresias(100.0, 200.0))
        assert found == {"j": 50.0, "k": 1050.0}, story

    def test_one_that_is_never_preempted_changes_nothing_for_those_behind_it(self) -> None:
        jobs = [old("b", "n/1", 50.0), new("j", 1).never_preempted(), new("k", 2), new("l", 3)]
        assert starts(TWO, self.running, *jobs, chosen=tiresias(100.0))["l"] == 180.0

    def test_one_of_the_last_queue_is_preempted_after_its_minimum_run(self) -> None:
        low = lasting(new("low", 2).served(9000.0), 1e6, 9000.0)
        gang = new("gang", 1).needs(2)
        jobs = [old("a", "n/0", 100.0), old("b", "n/1", 200.0), gang, low]
        assert starts(TWO, *jobs, chosen=tiresias(100.0, min_run=300.0)) == {"low": 100.0, "gang": 430.0}

    def test_the_order_of_a_policys_answer_does_not_matter(self) -> None:
        low = lasting(new("low", 2).served(9000.0), 1e6, 9000.0)
        gang = new("gang", 1).needs(2)
        jobs = [old("a", "n/0", 100.0), old("b", "n/1", 110.0), gang, low]
        chosen = replace(tiresias(100.0), order=Backwards((100.0,)))
        assert starts(TWO, *jobs, chosen=chosen) == {"low": 100.0, "gang": 110.0 + 30.0}


def test_a_job_is_estimated_beside_one_that_waits_for_unavailable_nodes() -> None:
    nodes = [*ONE, a_node("c", 1, model="T4", cordoned=True)]
    scheduler = Scheduler(nodes, tiresias(100.0))
    jobs = [old("runs", "n/0", 50.0), new("there", 1).needs(models=("T4",)), new("j", 2)]
    for job in jobs:
        scheduler.observe(job.made)
    waiting = scheduler.plan(NOW).waiting
    assert waiting["there"].code is WaitingCode.NODES_UNAVAILABLE
    assert scheduler.start_estimates(waiting, ["j"], NOW)["j"].start_seconds == NOW + 50.0


def test_run_times_are_those_on_the_gpus_that_a_job_gets() -> None:
    fast, slow = a_node("fast", 1, model="A100"), a_node("slow", 1, model="T4")
    speeds = (ModelSpeed("A100", 4.0), ModelSpeed("T4", 1.0, SpeedBasis.PEAK_FIGURES, "from ..."))
    jobs = [
        JobBuilder(replace(lasting(job, 1000.0).made, expected_on="A100", speeds=speeds))
        for job in (
            a_job("on-fast").runs_on("fast/0").never_preempted(),
            a_job("on-slow").runs_on("slow/0").never_preempted(),
            a_job("next").created(1),
        )
    ]
    found = estimates((fast, slow), *jobs)["next"]
    assert found.start_seconds == pytest.approx(NOW + 1000), "the one on the T4 takes four times as long"
    assert found.speeds == speeds
    assert found.basis.endswith("Its run time on T4 is an estimate.")
    alone = estimates((fast,), jobs[0], jobs[2])["next"]
    assert alone.speeds == ()
