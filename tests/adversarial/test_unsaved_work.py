"""Jobs that write no checkpoint, under loads that would evict them again and again. Times are of the simulation."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling import (
    Decision,
    Demand,
    Job,
    JobState,
    Node,
    PreemptionAction,
    Profile,
    WorkerPlacement,
    policies,
)
from laneway.scheduling.config.registry import ORDER, PREEMPTION
from laneway.scheduling.model.unsaved_work import MOST_LOST_SECONDS, evictable_until_seconds
from laneway.simulator import Knowledge, Simulation, TraceJob, make_nodes
from laneway.simulator.executor import Executor

HOUR = 3600.0
LONG = "ns/long"
SMALL = Profile(persistent_bytes=2**30, ephemeral_bytes=2**30, iteration_seconds=1.0)


class Watched(Simulation):
    """A simulation that keeps what each eviction lost."""

    def __init__(
        self, jobs: Sequence[TraceJob], nodes: Sequence[Node], order: str, preemption: str = "lowest-first"
    ) -> None:
        chosen = policies(order=order, preemption=preemption)
        super().__init__(jobs, nodes, chosen, knowledge=Knowledge(profiled=True))
        self.lost: list[tuple[float, int, int]] = []
        """Of each eviction of a job that does not save: the lost time, its priority and its preemptor's."""

        self._executor = cast(Executor, _Watching(self._executor, self._watch))

    def _watch(self, decided: Decision) -> None:
        for key, preemption in decided.preemptions.items():
            run = self.runs[key]
            ends = preemption.action is PreemptionAction.EVICT and run.finish_seconds is None
            if ends and key not in self._starts and not run.job.saves and preemption.preemptor:
                run.accrue(self.now_seconds)
                lost_seconds = run.executed_seconds - run.executed_seconds_at_save
                preemptor = self.runs[preemption.preemptor].job
                self.lost.append((lost_seconds, run.job.priority, preemptor.priority))


class _Watching:
    """Shows each decision to a watcher before it is carried out."""

    def __init__(self, executor: Executor, watch: Callable[[Decision], None]) -> None:
        self._executor = executor
        self._watch = watch

    def apply(self, decided: Decision) -> bool:
        self._watch(decided)
        return self._executor.apply(decided)


def long_among_short(load: float, gpus: int, *, saves: bool = False) -> list[TraceJob]:
    """A job of 12 hours on every GPU, and two days of short jobs of 20 minutes."""
    arrivals = random.Random(1)
    jobs = [TraceJob(LONG, Demand(gpus), 0.0, 12 * HOUR, profile=SMALL, saves=saves)]
    at_seconds = 0.0
    while at_seconds < 48 * HOUR:
        at_seconds += arrivals.expovariate(load * gpus / (20 * 60))
        name = f"ns/short-{len(jobs)}"
        jobs.append(TraceJob(name, Demand(1), at_seconds, 20 * 60.0, profile=SMALL))
    return jobs


def until_done(jobs: Sequence[TraceJob], nodes: Sequence[Node]) -> Watched:
    """Simulates until the long job is done."""
    simulation = Watched(jobs, nodes, "multilevel-las")
    while simulation.step():
        if simulation.runs[LONG].finish_seconds is not None:
            break
    return simulation


@pytest.mark.parametrize(("gpus", "load"), [(1, 0.3), (1, 0.5), (8, 0.1)])
def test_a_12_hour_job_without_checkpoints_is_not_thrown_back_by_short_jobs(gpus: int, load: float) -> None:
    run = until_done(long_among_short(load, gpus), make_nodes(f"1x{gpus}")).runs[LONG]
    assert run.finish_seconds is not None
    assert run.finish_seconds <= 12.5 * HOUR
    assert run.executed_seconds <= 12 * HOUR + 2 * MOST_LOST_SECONDS


def test_where_gpus_hold_paused_jobs_it_is_paused_for_them() -> None:
    nodes = tuple(
        replace(
            node, gpus=tuple(replace(gpu, allocatable_percent=200, active_percent=100) for gpu in node.gpus)
        )
        for node in make_nodes("1x1")
    )
    simulation = until_done(long_among_short(0.5, 1), nodes)
    run = simulation.runs[LONG]
    assert run.preemptions > 10
    assert run.evictions == 0
    assert run.executed_seconds == pytest.approx(12 * HOUR)
    now = simulation.now_seconds
    waited = [
        (now if each.first_start_seconds is None else each.first_start_seconds) - each.job.submit_seconds
        for each in simulation.runs.values()
    ]
    assert max(waited) < 4 * HOUR, "the short jobs wait no longer than for a job that is evicted"


def test_a_job_that_saves_its_work_is_evicted_as_before() -> None:
    assert until_done(long_among_short(0.3, 1, saves=True), make_nodes("1x1")).runs[LONG].evictions > 10


def test_a_job_of_a_higher_priority_class_still_evicts_it() -> None:
    jobs = [
        TraceJob(LONG, Demand(1), 0.0, 12 * HOUR, saves=False),
        TraceJob("ns/equal", Demand(1), HOUR, 20 * 60.0),
        TraceJob("ns/urgent", Demand(1), 6 * HOUR, 20 * 60.0, priority=1),
    ]
    simulation = until_done(jobs, make_nodes("1x1"))
    assert simulation.lost == [(6 * HOUR, 0, 1)]
    equal, urgent = simulation.runs["ns/equal"], simulation.runs["ns/urgent"]
    assert urgent.first_run_seconds is not None
    assert urgent.first_run_seconds < 6 * HOUR + 60
    assert equal.finish_seconds is not None, "it takes the GPU when the urgent job is done"


workloads = st.lists(
    st.builds(
        lambda number, gpus, submit, duration, priority, saves: TraceJob(
            f"ns/{number}", Demand(gpus), submit, duration, priority, profile=SMALL, saves=saves
        ),
        st.uuids(),
        st.integers(1, 4),
        st.floats(0, 20_000),
        st.floats(60, 20_000),
        st.sampled_from([0, 0, 0, 1]),
        st.booleans(),
    ),
    min_size=2,
    max_size=12,
    unique_by=lambda job: job.key,
)


@settings(max_examples=60, deadline=None)
@given(
    workloads,
    st.sampled_from(sorted(ORDER)),
    st.sampled_from(sorted(PREEMPTION)),
    st.sampled_from([100, 200]),
)
def test_an_equal_never_costs_a_job_more_than_the_bound_and_all_jobs_end(
    jobs: list[TraceJob], order: str, preemption: str, percent: int
) -> None:
    nodes = tuple(
        replace(
            node,
            gpus=tuple(replace(gpu, allocatable_percent=percent, active_percent=100) for gpu in node.gpus),
        )
        for node in make_nodes("1x4")
    )
    simulation = Watched(jobs, nodes, order, preemption)
    simulation.run()
    assert all(run.finish_seconds is not None for run in simulation.runs.values())
    for lost_seconds, priority, preemptors in simulation.lost:
        assert preemptors > priority or lost_seconds <= MOST_LOST_SECONDS + 1


@pytest.mark.parametrize(
    ("ran_hours", "unsaved_minutes", "evictable"),
    [(1, 9, True), (1, 11, False), (10, 59, True), (10, 61, False)],
)
def test_what_may_be_lost_grows_with_the_run(
    ran_hours: float, unsaved_minutes: float, evictable: bool
) -> None:
    """A job that saves once an hour can be evicted at any time after ten hours."""
    now = 1e6
    job = Job(
        "ns/a",
        Demand(1),
        0.0,
        state=JobState.RUNNING,
        placement=(WorkerPlacement(0, "n", ("g",), 100),),
        started_seconds=now - ran_hours * HOUR,
        as_of_seconds=now - 30,
        unsaved_seconds=unsaved_minutes * 60 - 30,
    )
    assert (now < evictable_until_seconds(job)) is evictable
