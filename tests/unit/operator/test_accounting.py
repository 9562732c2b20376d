"""Attained service over runs and restarts of the operator."""

from __future__ import annotations

import math

import pytest
from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import (
    PreemptionStatus,
    TrainingJobStatus,
    WaitingStatus,
    WorkerPlacementStatus,
)
from laneway.operator.lifecycle import accounting

from tests.unit.operator.builders import NOW


def placed(*workers: tuple[int, int]) -> TrainingJobStatus:
    placement = tuple(
        WorkerPlacementStatus(
            worker=rank, node="n", gpus=tuple(f"g{rank}{each}" for each in range(gpus)), share_percent=percent
        )
        for rank, (gpus, percent) in enumerate(workers)
    )
    return TrainingJobStatus(placement=placement)


@pytest.mark.parametrize(
    ("workers", "want"),
    [([(1, 100)], 1.0), ([(2, 100), (2, 100)], 4.0), ([(1, 25)], 0.25), ([(1, 200)], 1.0)],
    ids=["one GPU", "two workers of two", "a share", "an exclusive GPU that is overcommitted is one GPU"],
)
def test_what_counts_as_how_many_gpus(workers: list[tuple[int, int]], want: float) -> None:
    assert accounting.held_gpus(placed(*workers).placement) == pytest.approx(want)


def test_service_adds_up_over_runs_to_the_millisecond() -> None:
    status = placed((1, 50))
    for start in (NOW, NOW + 100):
        status = accounting.stopped(accounting.started(status, start), start + 10.002)
    assert status.executed_milliseconds == 20004
    assert status.attained_service_gpu_milliseconds == 10002
    assert status.service_counted_at is None


def test_counting_often_gives_what_counting_once_gives() -> None:
    once = accounting.counted(accounting.started(placed((4, 100)), NOW), NOW + 90)
    often = accounting.started(placed((4, 100)), NOW)
    for second in range(1, 91):
        often = accounting.counted(often, NOW + second)
    assert often == once


def test_nothing_is_counted_while_it_does_not_run() -> None:
    assert accounting.counted(placed((1, 100)), NOW).attained_service_gpu_milliseconds == 0


def test_a_clock_that_goes_back_takes_nothing_away() -> None:
    status = accounting.started(placed((1, 100)), NOW).model_copy(
        update={"attained_service_gpu_milliseconds": 5000, "executed_milliseconds": 5000}
    )
    after = accounting.counted(status, NOW - 30)
    assert (after.attained_service_gpu_milliseconds, after.executed_milliseconds) == (5000, 5000)
    assert after.service_counted_at == format_time(NOW)


def waiting(reason: str) -> TrainingJobStatus:
    return TrainingJobStatus(waiting=WaitingStatus(reason=reason, message="m"))


@pytest.mark.parametrize(
    "reason", ["GPUsBusy", "NotConsidered", "HasReservation", "AwaitingPreemption", "AwaitingWorkers"]
)
def test_a_wait_for_others_is_counted_until_it_ends(reason: str) -> None:
    began = accounting.wait_counted(waiting(reason), NOW)
    assert accounting.competes_since_seconds(began) == NOW
    assert accounting.wait_counted(began, NOW + 50) is began, "it goes on"
    ended = accounting.wait_counted(began.model_copy(update={"waiting": None}), NOW + 90)
    assert ended.wait_counted_at is None
    assert accounting.waited_before_seconds(ended) == pytest.approx(90)


@pytest.mark.parametrize(
    "reason", ["Suspended", "NotAdmitted", "NodesUnavailable", "NotEnoughGPUs", "Starting", "BackOff"]
)
def test_a_wait_that_is_no_other_jobs_fault_gives_no_claim(reason: str) -> None:
    status = accounting.wait_counted(waiting(reason), NOW)
    assert status.wait_counted_at is None
    assert accounting.competes_since_seconds(status) == math.inf


def test_a_job_that_is_suspended_while_it_waits_stops_counting() -> None:
    began = accounting.wait_counted(waiting("GPUsBusy"), NOW)
    suspended = began.model_copy(update={"waiting": waiting("Suspended").waiting})
    held = accounting.wait_counted(suspended, NOW + 10)
    month = 30 * 86_400
    released = held.model_copy(update={"waiting": waiting("GPUsBusy").waiting})
    again = accounting.wait_counted(released, NOW + month)
    assert accounting.waited_before_seconds(again) == pytest.approx(10)
    assert accounting.competes_since_seconds(again) == NOW + month


def test_a_wait_that_an_earlier_operator_began_counts_from_its_begin() -> None:
    status = waiting("GPUsBusy")
    assert status.waiting is not None
    began = status.waiting.model_copy(update={"since": format_time(NOW - 7200)})
    stored = status.model_copy(update={"attempt": 2, "waiting": began})
    assert accounting.wait_counted(stored, NOW, stored).wait_counted_at == format_time(NOW - 7200)
    held = stored.model_copy(update={"waiting": began.model_copy(update={"reason": "Suspended"})})
    assert accounting.wait_counted(stored, NOW, held).wait_counted_at == format_time(NOW)


def test_a_new_job_waits_from_its_creation_on() -> None:
    assert accounting.competes_since_seconds(TrainingJobStatus()) is None


def test_a_paused_job_waits_and_a_placed_one_does_not() -> None:
    holding = waiting("GPUsBusy").model_copy(update={"placement": placed((1, 100)).placement})
    assert not accounting.competes(holding)
    assert accounting.competes(
        holding.model_copy(update={"preemption": PreemptionStatus(action="Pause", since=format_time(NOW))})
    )
