"""What the reference simulators do otherwise, on traces small enough to be worked out by hand."""

from __future__ import annotations

import pytest
from laneway.scheduling import Demand, Policies, policies
from laneway.scheduling.order.policy import OrderPolicy
from laneway.simulator import Costs, Simulation, TraceJob, make_nodes

from tests.performance.first_difference import first_difference
from tests.performance.reference_index import stepped_index
from tests.performance.reference_order import ReferenceOrder

FREE = policies(placement="count", preemption_options={"min_run_seconds": 0})


def simulated(trace: list[TraceJob], order: OrderPolicy) -> Simulation:
    who = Policies((), order, FREE.placement, FREE.preemption)
    costs = Costs(start_seconds=0, leave_seconds=0, restart_seconds=0)
    simulation = Simulation(trace, make_nodes("1x8"), who, costs)
    simulation.run()
    return simulation


def job(name: int, submit_seconds: float, duration_seconds: float, gpus: int = 8) -> TraceJob:
    return TraceJob(f"default/{name}", Demand(gpus), submit_seconds, duration_seconds)


def test_seconds_taken_for_gpu_seconds_delay_the_demotion() -> None:
    trace = [job(0, 0, 10_000), job(1, 100, 50)]
    right = simulated(trace, ReferenceOrder(mixes_seconds_into_gpu_seconds=False))
    mixed = simulated(trace, ReferenceOrder(mixes_seconds_into_gpu_seconds=True))
    assert right.runs["default/1"].first_start_seconds == pytest.approx(3250 / 8)
    assert mixed.runs["default/1"].first_start_seconds == pytest.approx(100 + (3250 - 100) // 8)


def test_a_job_that_outgrows_its_queue_goes_behind_those_that_wait_in_the_next() -> None:
    """0 yields to 1 in the first queue, and waits in the second when 1 gets there a turn later."""
    trace = [job(0, 0, 800), job(1, 100, 800)]
    lists = simulated(trace, ReferenceOrder(mixes_seconds_into_gpu_seconds=False))
    ours = simulated(trace, policies(order="tiresias-las", order_options={"promotion_factor": 0}).order)
    turn = 3250 / 8
    assert (lists.runs["default/0"].preemptions, lists.runs["default/1"].preemptions) == (1, 1)
    assert (ours.runs["default/0"].preemptions, ours.runs["default/1"].preemptions) == (1, 0)
    found = first_difference(ours, lists, "ours", "theirs")
    assert found is not None
    assert found.at_seconds == pytest.approx(2 * turn)
    assert "in ours nothing changes, in theirs job 0 (GPUs: 8, submitted at 0 s) starts" in found.text
    assert found.finish_elsewhere == 2


def test_nothing_differs_from_itself() -> None:
    trace = [job(0, 0, 1_000), job(1, 100, 1_000)]
    one, other = (simulated(trace, ReferenceOrder(mixes_seconds_into_gpu_seconds=False)) for _ in range(2))
    assert first_difference(one, other, "one", "other") is None


def test_the_index_is_that_of_a_job_about_to_reach_the_next_sample() -> None:
    index = stepped_index([100, 10_000], sums_whole_services=False)
    assert index(0) == index(99) == pytest.approx(1 / (1 + 3250))
    assert index(100) == pytest.approx(1.0)
    assert index(10_000) == 0


def test_the_references_index_sums_whole_services() -> None:
    index = stepped_index([100, 10_000], sums_whole_services=True)
    assert index(0) == pytest.approx(0.5 * 1_000_000 / ((100 + 3250) // 2), abs=1e-4)
    assert index(100) == 0
