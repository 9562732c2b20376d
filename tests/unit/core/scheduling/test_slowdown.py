"""The speed that a job is to keep beside others."""

from __future__ import annotations

import pytest
from laneway.scheduling import WorkerPlacement
from laneway.scheduling.model.slowdown import keep_their_speed, least_speed_ratio

from tests.unit.core.scheduling.builders import GIB, JobBuilder, a_job

WHOLE = a_job("job").needs(max_slowdown_ratio=0.2)
BY_MEMORY = a_job("job").needs(memory_bytes=GIB, max_slowdown_ratio=0.2)


@pytest.mark.parametrize(
    ("job", "want"),
    [
        (a_job("job"), 0.0),
        (WHOLE, 0.8),
        (a_job("job").needs(max_slowdown_ratio=0.0), 1.0),
        (a_job("job").needs(share_percent=25, max_slowdown_ratio=0.2), 0.2),
        (a_job("job").needs(2, gpus_per_worker=2, max_slowdown_ratio=0.2), 0.8),
        (BY_MEMORY, 0.8),
    ],
    ids=["no bound", "a whole GPU", "nothing to lose", "a share", "a gang", "memory, before it is placed"],
)
def test_the_bound_applies_to_what_a_share_entitles_to(job: JobBuilder, want: float) -> None:
    assert least_speed_ratio(job.made) == pytest.approx(want)


def test_memory_becomes_a_share_where_the_job_is_placed() -> None:
    placed = BY_MEMORY.runs_on("n/0")._with(placement=(WorkerPlacement(0, "n", ("n/0",), 50),))
    assert least_speed_ratio(placed.made) == pytest.approx(0.4)


@pytest.mark.parametrize(("speeds", "keep"), [((0.8, 0.1), True), ((0.79, 1.0), False)])
def test_all_keep_their_speed_or_not(speeds: tuple[float, float], keep: bool) -> None:
    assert keep_their_speed([WHOLE.made, a_job("free").made], speeds) is keep


def test_who_may_lose_nothing_is_not_joined() -> None:
    assert not keep_their_speed([a_job("alone").needs(max_slowdown_ratio=0.0).made], [1.0])
