"""Jobs on several GPUs never wait for each other in a cycle, in any order of events (docs/lanes.md,
"Lanes")."""

from __future__ import annotations

import pytest

from tests.support.lanes.state_search import At, Job, StateSearch, gang, single

PAIR = (gang("a", 0, 1, stays=False), gang("b", 0, 1, stays=False))
RING = (gang("a", 0, 1), gang("b", 1, 2), gang("c", 2, 0))

CASES = {
    "two gangs on the same GPUs, room for one lane: the second comes when the first has left": (6, PAIR),
    "two gangs on the same GPUs, room for two lanes": (10, PAIR),
    "two gangs and a job on one GPU that shares a lane with either": (
        11,
        (gang("a", 0, 1), gang("b", 0, 1), single("s", 0)),
    ),
    "lanes merge while their turns run, because a job grows": (
        14,
        (gang("a", 0, 1), gang("b", 0, 1), single("s", 0, (1, 4))),
    ),
    "lanes merge and split while a job comes and goes": (
        14,
        (gang("a", 0, 1), gang("b", 0, 1), single("s", 1, (3,), stays=False)),
    ),
    "three gangs in a ring": (10, RING),
}


@pytest.mark.parametrize(("capacity", "jobs"), CASES.values(), ids=CASES)
def test_no_order_of_events_gets_stuck(capacity: int, jobs: tuple[Job, ...]) -> None:
    search = StateSearch(capacity, jobs).run()
    assert search.stuck is None, search.stuck
    assert search.states > 20


def test_the_walk_meets_what_it_is_there_for() -> None:
    search = StateSearch(*CASES["lanes merge while their turns run, because a job grows"]).run()
    assert search.contested, "somebody waits for a lane that another one has"
    assert search.unsettled, "a turn runs on whose tenant was moved to another lane"


@pytest.mark.parametrize(
    ("story", "capacity", "jobs"),
    [
        ("each holds one GPU's lane and waits for the other's", 6, PAIR),
        ("in a circle of three, where each pair of gangs shares one GPU", 6, RING),
    ],
)
def test_without_the_rule_that_keeps_gangs_apart_the_walk_finds_the_deadlock(
    story: str, capacity: int, jobs: tuple[Job, ...]
) -> None:
    search = StateSearch(capacity, jobs, apart=False).run()
    assert search.stuck is not None, story
    held = {job.name for (job, _), at in zip(search.workers, search.stuck.at, strict=True) if at is At.HOLDS}
    waiting = {
        job.name for (job, _), at in zip(search.workers, search.stuck.at, strict=True) if at is At.WAITS
    }
    assert held == waiting == {job.name for job in jobs}, "each holds something that another waits for"
