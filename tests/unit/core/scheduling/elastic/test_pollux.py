"""Workers by goodput."""

from __future__ import annotations

import pytest
from laneway.scheduling.elastic.pollux import Pollux

from tests.unit.core.scheduling.elastic.builders import a_malleable


def test_equal_jobs_get_equal_shares() -> None:
    jobs = [a_malleable(f"default/{number}") for number in range(4)]
    assert set(Pollux().allot(jobs, {"n0": 8, "n1": 8}, 0.0).values()) == {4}


def test_where_gpus_are_few_those_that_came_first_run() -> None:
    jobs = [a_malleable(f"default/{number}", created_seconds=float(number)) for number in range(4)]
    allotted = Pollux().allot(jobs, {"n0": 3}, 10.0)
    assert allotted == {"default/0": 1, "default/1": 1, "default/2": 1, "default/3": 0}


def test_a_job_that_has_had_much_service_weighs_less() -> None:
    jobs = [
        a_malleable("default/old", attained_service_gpu_seconds=360_000.0),
        a_malleable("default/young"),
    ]
    weighed = Pollux().allot(jobs, {"n0": 8}, 0.0)
    assert weighed["default/old"] < weighed["default/young"]
    alike = Pollux(service_exponent=0.0).allot(jobs, {"n0": 8}, 0.0)
    assert alike["default/old"] == alike["default/young"]


@pytest.mark.parametrize(
    ("age_seconds", "restarts", "workers"),
    [(20.0, 0, 4), (100_000.0, 0, 8), (3000.0, 90, 4)],
    ids=["a young job", "an old job", "one that was restarted often"],
)
def test_a_job_is_given_more_only_if_that_pays_the_restart(
    age_seconds: float, restarts: int, workers: int
) -> None:
    job = a_malleable(workers_by_node=(4,), restarts=restarts)
    assert Pollux().allot([job], {"n0": 8}, age_seconds) == {"default/a": workers}


def test_jobs_that_are_more_than_the_gpus_do_not_take_turns_at_each_decision() -> None:
    running = a_malleable(
        "default/a", max_workers=1, workers_by_node=(1,), attained_service_gpu_seconds=3600.0
    )
    waiting = a_malleable("default/b", max_workers=1, attained_service_gpu_seconds=3000.0)
    assert Pollux().allot([running, waiting], {"n0": 1}, 3600.0) == {"default/a": 1, "default/b": 0}
    eager = Pollux(stop_ratio=0.0)
    assert eager.allot([running, waiting], {"n0": 1}, 3600.0) == {"default/a": 0, "default/b": 1}


def test_a_job_that_has_had_many_times_the_service_is_stopped_for_one_that_waits() -> None:
    running = a_malleable(
        "default/a", max_workers=1, workers_by_node=(1,), attained_service_gpu_seconds=36_000.0
    )
    waiting = a_malleable("default/b", max_workers=1)
    assert Pollux().allot([running, waiting], {"n0": 1}, 36_000.0) == {"default/a": 0, "default/b": 1}


def test_a_running_job_makes_room_for_new_ones() -> None:
    running = a_malleable("default/old", workers_by_node=(8,))
    new = [a_malleable(f"default/new-{number}", created_seconds=5000.0, goodput=None) for number in range(3)]
    allotted = Pollux().allot([running, *new], {"n0": 8}, 5000.0)
    assert all(allotted[job.key] == 1 for job in new)
    assert 1 <= allotted["default/old"] <= 5


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"fairness": 2.0}, "fairness is 2.0: write a number up to 1"),
        ({"fairness": float("nan")}, "fairness is nan"),
        ({"restart_seconds": -1.0}, "restart_seconds is -1.0: write 0 or more"),
        ({"service_exponent": -1.0}, "service_exponent is -1.0"),
        ({"stop_ratio": -1.0}, "stop_ratio is -1.0"),
        ({"service_gpu_seconds": 0.0}, "service_gpu_seconds is 0.0: write more than 0"),
    ],
)
def test_impossible_parameters_are_refused(fields: dict[str, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Pollux(**fields)
