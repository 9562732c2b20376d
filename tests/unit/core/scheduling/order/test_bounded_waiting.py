"""A stream of newcomers that alone would keep the cluster busy, and an old job beside it."""

from __future__ import annotations

import pytest

from tests.unit.simulator.builders import a_job, simulated

NEWCOMERS = 150
NEWCOMER_SECONDS = 100.0
STREAM_END_SECONDS = 1 + NEWCOMERS * NEWCOMER_SECONDS
OLD_SECONDS = 4000.0
THRESHOLD = 1000.0


def old_jobs_finish_seconds(order: str, old_seconds: float = OLD_SECONDS, **options: object) -> float:
    """When an old job is done with one GPU for which there is a newcomer at every moment; preemption costs nothing."""
    stream = [
        a_job(f"ns/new{number:03}", NEWCOMER_SECONDS, submit=1 + number * NEWCOMER_SECONDS)
        for number in range(NEWCOMERS)
    ]
    simulation = simulated(
        a_job("ns/old", old_seconds), *stream, order=order, thresholds_gpu_seconds=[THRESHOLD], **options
    )
    finish = simulation.runs["ns/old"].finish_seconds
    assert finish is not None
    return finish


@pytest.mark.parametrize(
    ("order", "old_seconds", "options"),
    [("tiresias-las", OLD_SECONDS, {}), ("tiresias-gittins", 400.0, {"learn_after_jobs": 0})],
)
def test_promotion_bounds_the_wait_of_a_job_that_newcomers_keep_passing(
    order: str, old_seconds: float, options: dict[str, object]
) -> None:
    waits = old_jobs_finish_seconds(order, old_seconds, **options)
    assert waits > STREAM_END_SECONDS, "while newcomers come, it waits"
    promoted = old_jobs_finish_seconds(order, old_seconds, promotion_factor=1.0, **options)
    assert promoted < STREAM_END_SECONDS


def test_a_job_is_promoted_each_time_that_it_has_waited_what_it_executed() -> None:
    bound_seconds = executed = 0.0
    while (
        executed < OLD_SECONDS
    ):  # a threshold's service at a time, after waits for the promotion and for one newcomer
        bound_seconds += executed + THRESHOLD + NEWCOMER_SECONDS
        executed += THRESHOLD
    assert old_jobs_finish_seconds("tiresias-las", promotion_factor=1.0) <= bound_seconds
