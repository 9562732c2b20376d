"""A scheduler that keeps state decides the same as a new one that gets the full state at once."""

from __future__ import annotations

import random
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from laneway.scheduling import (
    ClusterSnapshot,
    Decision,
    ForeignTenant,
    Job,
    JobState,
    Node,
    Policies,
    PreemptionAction,
    Scheduler,
    policies,
)
from laneway.scheduling.fairness.contention import Contention

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import NOW, a_job, a_node, a_snapshot
from tests.unit.core.scheduling.strategies import HOSTS, jobs, nodes
from tests.unit.core.scheduling.whole_plan import informed, next_decision_seconds, plan

ORDERS = st.sampled_from(
    [
        policies(order="fifo"),
        policies(order="fifo", order_options={"strict": False}),
        policies(order="tiresias-las", order_options={"promotion_factor": 8.0, "patience_seconds": 200.0}),
        policies(order="tiresias-las", preemption_options={"min_run_seconds": 0}),
        policies(order="multilevel-las", order_options={"fair_share": False}),
        policies(
            order="multilevel-las", preemption_options={"min_run_seconds": 20, "eviction_seconds": 10.0}
        ),
        policies(order="srtf", preemption_options={"min_run_seconds": 0}),
        policies(order="srtf", order_options={"unknown_seconds": 700.0}),
        policies(order="srsf", preemption="least-lost"),
        policies(order="multilevel-las", placement="lanes", preemption_options={"min_run_seconds": 0}),
        policies(order="fifo", order_options={"strict": False}, placement="tiresias"),
        policies(order="multilevel-las", placement="fgd", preemption_options={"min_run_seconds": 0}),
    ]
)
EXPECTED_SECONDS = st.sampled_from([None, 40.0, 450.0, 1000.1, 7000.0])
PARKED_AS = {
    PreemptionAction.PAUSE: JobState.PAUSED,
    PreemptionAction.OFFLOAD: JobState.OFFLOADED,
    PreemptionAction.EVICT: JobState.TERMINATING,
}


class WithMemory(RuleBasedStateMachine):
    """Jobs come, start, leave and end; at each step both are asked."""

    def __init__(self) -> None:
        super().__init__()
        # What the decision before left idle is the one thing that a new scheduler cannot know.
        self._idle = patch.object(Contention, "set_idle", lambda self, percent: None)
        self._idle.start()
        self.now = 1000.0
        self.made = 0
        self.jobs: dict[str, Job] = {}
        self.avoid: dict[str, frozenset[str]] = {}

    def teardown(self) -> None:
        self._idle.stop()

    @initialize(nodes=nodes(), chosen=ORDERS, pausing=st.booleans())
    def begin(self, nodes: tuple[Node, ...], chosen: Policies, pausing: bool) -> None:
        if pausing:
            nodes = tuple(
                replace(
                    node,
                    gpus=tuple(
                        replace(gpu, allocatable_percent=200, active_percent=100) for gpu in node.gpus
                    ),
                )
                for node in nodes
            )
        self.nodes = nodes
        self.policies = chosen
        self.scheduler = Scheduler(nodes, chosen)

    @rule(data=st.data())
    def submit(self, data: st.DataObject) -> None:
        job = data.draw(jobs(f"ns/j{self.made}"))
        self.made += 1
        expected_seconds = data.draw(EXPECTED_SECONDS)
        self.observe(replace(job, created_seconds=self.now, expected_seconds=expected_seconds))

    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        if self.jobs:
            key = data.draw(st.sampled_from(sorted(self.jobs)))
            del self.jobs[key]
            self.avoid.pop(key, None)
            self.scheduler.forget(key)

    @rule(
        data=st.data(),
        change=st.sampled_from(["gone", "suspended", "profiled", "expected", "avoid", "fails", "preempts"]),
    )
    def change(self, data: st.DataObject, change: str) -> None:
        if not self.jobs:
            return
        job = self.jobs[data.draw(st.sampled_from(sorted(self.jobs)))]
        if change == "suspended":
            self.observe(replace(job, suspended=not job.suspended))
        elif change == "profiled":
            self.observe(replace(job, profile=data.draw(jobs("ns/other")).profile))
        elif change == "expected":
            self.observe(replace(job, expected_seconds=data.draw(EXPECTED_SECONDS)))
        elif change == "preempts":
            self.observe(replace(job, demand=replace(job.demand, preempts=not job.demand.preempts)))
        elif change == "avoid":
            avoided = frozenset(
                data.draw(st.sets(st.sampled_from([node.name for node in self.nodes]), max_size=1))
            )
            self.avoid[job.key] = avoided
            self.scheduler.avoid(job.key, avoided)
        elif change == "gone" and job.state is JobState.TERMINATING:
            self.observe(replace(job, state=JobState.WAITING, placement=(), waiting_since_seconds=self.now))
        elif change == "fails" and job.state in (JobState.RUNNING, JobState.STARTING):
            self.observe(self.stopped(job, JobState.TERMINATING))

    @rule(data=st.data())
    def cordon(self, data: st.DataObject) -> None:
        chosen = data.draw(st.sampled_from([node.name for node in self.nodes]))
        self.nodes = tuple(
            replace(node, schedulable=not node.schedulable) if node.name == chosen else node
            for node in self.nodes
        )
        self.scheduler.set_nodes(self.nodes)

    @rule(data=st.data(), change=st.sampled_from(["stranger", "sick"]))
    def touch_a_gpu(self, data: st.DataObject, change: str) -> None:
        """A plain pod comes or goes, or a GPU is taken out of use or back."""
        node = data.draw(st.sampled_from(self.nodes))
        if not node.gpus:
            return
        gpu = data.draw(st.sampled_from(node.gpus))
        foreign = () if gpu.foreign else (ForeignTenant("other/notebook", 30),)
        touched = (
            replace(gpu, foreign=foreign) if change == "stranger" else replace(gpu, healthy=not gpu.healthy)
        )
        gpus = tuple(touched if each is gpu else each for each in node.gpus)
        self.nodes = tuple(replace(node, gpus=gpus) if each is node else each for each in self.nodes)
        self.scheduler.set_nodes(self.nodes)

    @rule(data=st.data())
    def other_pods(self, data: st.DataObject) -> None:
        """Pods that are not Laneway's come or go."""
        node = data.draw(st.sampled_from(self.nodes))
        changed = replace(node, host=data.draw(HOSTS))
        self.nodes = tuple(changed if each is node else each for each in self.nodes)
        self.scheduler.set_nodes(self.nodes)

    @rule()
    def lose_a_node(self) -> None:
        if len(self.nodes) > 1:
            self.nodes = self.nodes[1:]
            self.scheduler.set_nodes(self.nodes)

    @rule(seconds=st.sampled_from([1.0, 50.0, 400.0, 3000.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def carry_out(self) -> None:
        decision = self.scheduler.decide(self.now)
        self.carry(decision)

    @rule()
    def carry_out_one_start_at_a_time(self) -> None:
        """A truncated decision is followed by another that continues where it ended."""
        while True:
            decision = self.scheduler.decide(self.now, max_starts=1)
            assert len(decision.starts) <= 1
            assert not decision.truncated or decision.starts
            self.carry(decision)
            if not decision.truncated:
                break

    @rule()
    def carry_out_nothing(self) -> None:
        self.scheduler.decide(self.now)

    @invariant()
    def decides_the_same(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        listed = list(self.jobs.values())
        random.Random(self.made).shuffle(listed)
        snapshot = ClusterSnapshot(self.nodes, tuple(listed), self.avoid)
        fresh, remembered = plan(snapshot, self.now, self.policies), self.scheduler.plan(self.now)
        assert remembered == fresh
        assert self.scheduler.next_decision_seconds(self.now) == next_decision_seconds(
            snapshot, self.now, self.policies
        )

    def carry(self, decision: Decision) -> None:
        for key, placement in decision.starts.items():
            self.observe(
                replace(
                    self.jobs[key],
                    state=JobState.RUNNING,
                    placement=placement,
                    started_seconds=self.now,
                    as_of_seconds=self.now,
                )
            )
        for key in decision.resumes:
            self.observe(
                replace(
                    self.jobs[key], state=JobState.RUNNING, started_seconds=self.now, as_of_seconds=self.now
                )
            )
        for key, preemption in decision.preemptions.items():
            self.observe(self.stopped(self.jobs[key], PARKED_AS[preemption.action]))

    def stopped(self, job: Job, state: JobState) -> Job:
        return replace(
            job,
            state=state,
            attained_service_gpu_seconds=job.service_gpu_seconds(self.now),
            executed_seconds=job.ran_seconds(self.now),
            as_of_seconds=self.now,
        )

    def observe(self, job: Job) -> None:
        self.jobs[job.key] = job
        self.scheduler.observe(job)


WithMemory.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=25, suppress_health_check=list(HealthCheck)
)
TestWithMemory = pytest.mark.timeout(120)(WithMemory.TestCase)


def test_a_new_scheduler_guarantees_as_much_as_one_that_runs() -> None:
    """Idle GPUs raise what jobs are guaranteed; those of the snapshot count, not those before its jobs were known."""
    holder = a_job("holder").needs(4).runs_on(*(f"a/{number}" for number in range(4)))
    waiting = [a_job(f"waiting-{number}").needs(4).created(-20_000) for number in range(9)]
    snapshot = a_snapshot([a_node("a")], holder, *waiting)
    scheduler = informed(snapshot, policies())

    assert scheduler.plan(NOW) == scheduler.plan(NOW)


def test_gpus_that_have_just_become_free_raise_no_guarantee() -> None:
    """The decision gives them away; what it leaves idle counts in the next."""
    holder = a_job("holder").needs(4).runs_on(*(f"a/{number}" for number in range(4)))
    waiting = [a_job(f"old-{number}").needs(4).created(-20_000).served(40_000, 100) for number in range(8)]
    waiting.append(a_job("new").needs(4).created(NOW - 10))
    scheduler = informed(a_snapshot([a_node("a")], holder, *waiting), policies())
    scheduler.plan(NOW)
    scheduler.forget("holder")
    assert scheduler.plan(NOW).starts.keys() == {"new"}, (
        "the policy's first job, not one that would be owed time"
    )
