"""What the scheduler gets to know, and when."""

from __future__ import annotations

import pytest
from laneway.scheduling.model.past_services import NO_SERVICES
from laneway.scheduling.order.tiresias_gittins import TiresiasGittins
from laneway.simulator import Knowledge, Sharing, make_nodes

from tests.unit.simulator.builders import SMALL, a_job, finishes, simulated


def test_a_profile_is_known_after_the_first_iterations_and_lets_others_in() -> None:
    simulation = simulated(
        a_job("whole", 100, profile=SMALL),
        a_job("half", 10, submit=1, share=50, profile=SMALL),
        nodes=Sharing(2).shared(make_nodes("1x1")),
        order="fifo",
        knowledge=Knowledge(profile_iterations=20),
    )
    assert simulation.runs["half"].first_start_seconds == 20, "until then the first may use all of the memory"
    assert finishes(simulation) == {"half": 30, "whole": 100}


def test_a_profile_that_is_known_in_advance_lets_others_in_at_once() -> None:
    simulation = simulated(
        a_job("whole", 100, profile=SMALL),
        a_job("half", 10, submit=1, share=50, profile=SMALL),
        nodes=Sharing(2).shared(make_nodes("1x1")),
        order="fifo",
        knowledge=Knowledge(profiled=True),
    )
    assert simulation.runs["half"].first_start_seconds == 1


def test_the_expected_duration_is_the_total_and_not_the_remainder() -> None:
    simulation = simulated(a_job("a", 30), a_job("b", 20, submit=15), order="srtf")
    assert finishes(simulation) == {"a": 30, "b": 50}, "15 s of a are left when b comes with 20 s"


def test_the_error_of_expected_durations_is_seeded_and_differs_between_jobs() -> None:
    blurred = Knowledge(expected_error_ratio=0.5, seed=1)
    first = [blurred.expected_seconds(a_job(name, 100)) for name in ("a", "b")]
    assert first == [blurred.expected_seconds(a_job(name, 100)) for name in ("a", "b")]
    assert first[0] != first[1]
    assert 100 not in first
    assert Knowledge(expected_error_ratio=0.5, seed=2).expected_seconds(a_job("a", 100)) != first[0]


@pytest.mark.parametrize("field", ["profile_iterations", "expected_error_ratio"])
def test_negative_values_are_refused_by_name(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        Knowledge(**{field: -1})


def test_the_simulator_learns_from_jobs_as_they_end() -> None:
    jobs = [a_job(f"ns/{number}", 100.0, submit=200.0 * number) for number in range(4)]
    simulation = simulated(*jobs, order="tiresias-gittins", learn_after_jobs=2)
    order = simulation._scheduler._state.policies.order
    assert isinstance(order, TiresiasGittins)
    assert order.past.completed == 4
    given_ = simulated(*jobs, order="tiresias-gittins", samples_gpu_seconds=[5.0])
    assert given_._services.past() == NO_SERVICES
