"""Attained service over runs and restarts of the operator."""

from __future__ import annotations

import pytest
from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import TrainingJobStatus, WorkerPlacementStatus
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
