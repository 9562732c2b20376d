"""Discrete events: what happens when, and what it costs. One GPU unless said otherwise."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling import WaitingCode, policies
from laneway.simulator import Costs, Simulation, TraceJob, make_nodes

from tests.support.property_examples import examples
from tests.unit.simulator.builders import FREE, a_job, finishes, simulated


def test_jobs_run_one_after_the_other() -> None:
    simulation = simulated(a_job("a", 10), a_job("b", 5, submit=1), order="fifo")
    assert finishes(simulation) == {"a": 10, "b": 15}
    assert simulation.meter.held_gpu_seconds == 15


def test_halves_of_a_gpu_run_beside_each_other() -> None:
    simulation = simulated(a_job("a", 10, share=50), a_job("b", 5, share=50))
    assert finishes(simulation) == {"a": 10, "b": 5}
    assert simulation.meter.held_gpu_seconds == 7.5


def test_a_short_job_preempts_a_long_one_at_the_threshold_and_it_goes_on_where_it_stopped() -> None:
    simulation = simulated(
        a_job("long", 100), a_job("short", 20, submit=5), thresholds_gpu_seconds=[30], promotion_factor=0
    )
    assert finishes(simulation) == {"long": 120, "short": 50}
    assert simulation.runs["long"].preemptions == 1


def test_leaving_and_restarting_take_their_time_and_hold_the_gpu() -> None:
    simulation = simulated(
        a_job("long", 100),
        a_job("short", 20, submit=50),
        costs=Costs(start_seconds=1, leave_seconds=3, restart_seconds=7),
        thresholds_gpu_seconds=[30],
        promotion_factor=0,
    )
    # long runs 1..50, leaves until 53; short starts, runs 54..74; long restarts, runs 81..132
    assert finishes(simulation) == {"long": 132, "short": 74}
    assert simulation.meter.held_gpu_seconds == 132


def test_a_job_that_ends_holds_its_gpu_until_its_workers_are_gone() -> None:
    simulation = simulated(a_job("a", 10), a_job("b", 5), order="fifo", costs=replace(FREE, end_seconds=3))
    assert finishes(simulation) == {"a": 10, "b": 18}
    assert simulation.meter.held_gpu_seconds == 10 + 3 + 5 + 3


def test_a_restart_elsewhere_costs_a_migration_and_one_in_place_does_not() -> None:
    def run(*others: TraceJob) -> Simulation:
        return simulated(
            a_job("long", 100),
            a_job("wide", 10, submit=50, gpus=2),
            *others,
            nodes="2x1",
            costs=replace(FREE, restart_seconds=5, migration_seconds=7),
            thresholds_gpu_seconds=[30],
            promotion_factor=0,
        )

    stays = run().runs["long"]
    assert (stays.finish_seconds, stays.migrations) == (60 + 5 + 50, 0)
    # when wide has ended, keeper takes the first GPU, and long the other
    moves = run(a_job("keeper", 300, submit=55)).runs["long"]
    assert (moves.finish_seconds, moves.migrations) == (60 + 5 + 7 + 50, 1)


def test_a_job_that_just_started_is_not_preempted_before_its_minimum_run() -> None:
    simulation = simulated(
        a_job("long", 100), a_job("short", 20, submit=35), thresholds_gpu_seconds=[30], min_run=60
    )
    assert finishes(simulation) == {"long": 120, "short": 80}


def test_a_promoted_job_stays_in_the_first_queue_once_it_runs() -> None:
    crowd = [a_job(f"new{number}", 10, submit=30 + 10 * number) for number in range(40)]
    simulation = simulated(
        a_job("old", 60), *crowd, thresholds_gpu_seconds=[30], promotion_factor=2, order="tiresias-las"
    )
    run = simulation.runs["old"]
    assert run.preemptions == 1, "it was preempted at 30 s, promoted at 90 s, and then ran its 30 s in one go"
    assert run.finish_seconds == 120


def test_a_gang_that_never_fits_does_not_keep_others_from_finishing() -> None:
    simulation = simulated(a_job("huge", 5, gpus=3), a_job("a", 5), nodes="1x2")
    assert finishes(simulation) == {"a": 5, "huge": None}
    assert simulation.waiting["huge"].code is WaitingCode.NOT_ENOUGH_GPUS


def test_nothing_to_simulate_is_over_at_once() -> None:
    assert not simulated().step()


def test_progress_is_reported_after_every_step() -> None:
    seen: list[tuple[int, int]] = []
    simulation = Simulation([a_job("a", 1), a_job("b", 2)], make_nodes("1x1"), policies())
    simulation.run(lambda finished, of: seen.append((finished, of)))
    assert seen[-1] == (2, 2)


@pytest.mark.parametrize("field", [field.name for field in fields(Costs)])
def test_negative_costs_are_refused_by_name(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        Costs(**{field: -1})


traces = st.lists(
    st.tuples(st.integers(0, 200), st.integers(1, 120), st.integers(1, 4), st.sampled_from([25, 50, 100])),
    min_size=1,
    max_size=12,
).map(
    lambda rows: [
        a_job(f"j{number}", float(duration), submit=float(submit), gpus=gpus, share=share)
        for number, (submit, duration, gpus, share) in enumerate(rows)
    ]
)


@settings(max_examples=examples(40))
@given(traces, st.sampled_from(["fifo", "tiresias-las"]), st.sampled_from([0.0, 5.0]))
def test_every_job_finishes_having_run_exactly_its_duration(
    trace: list[TraceJob], order: str, cost: float
) -> None:
    options = {"thresholds_gpu_seconds": [20, 60]} if order == "tiresias-las" else {}
    simulation = simulated(
        *trace, nodes="2x2", order=order, costs=Costs(cost, cost, cost), min_run=10, **options
    )
    for run in simulation.runs.values():
        assert run.finish_seconds is not None
        assert run.executed_seconds == pytest.approx(run.job.duration_seconds)
        assert run.finish_seconds - run.job.submit_seconds >= run.job.duration_seconds - 1e-6


@settings(max_examples=examples(20))
@given(traces)
def test_the_same_trace_gives_the_same_result_whatever_its_order(trace: list[TraceJob]) -> None:
    assert finishes(simulated(*trace, nodes="2x2")) == finishes(simulated(*reversed(trace), nodes="2x2"))
