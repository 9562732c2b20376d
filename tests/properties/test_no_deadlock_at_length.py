"""The search over all interleavings, on larger cases than the unit tests have time for (some hundred thousand states)."""

from __future__ import annotations

import pytest

from tests.support.lanes.state_search import Job, StateSearch, gang, single

CASES = {
    "all of two gangs and a job on each GPU come and go": (
        11,
        (
            gang("a", 0, 1, stays=False),
            gang("b", 0, 1, stays=False),
            single("s", 0, stays=False),
            single("t", 1, stays=False),
        ),
    ),
    "all of them grow, and lanes merge under their turns": (
        14,
        (
            gang("a", 0, 1, ephemerals=(2, 4)),
            gang("b", 0, 1, ephemerals=(2, 4)),
            single("s", 0, (1, 4)),
            single("t", 1, (1, 4)),
        ),
    ),
    "three gangs in a ring that come and go, beside a job that grows": (
        11,
        (
            gang("a", 0, 1, stays=False),
            gang("b", 1, 2, stays=False),
            gang("c", 2, 0, stays=False),
            single("s", 0, (1, 4)),
        ),
    ),
    "three gangs in a ring, and a job on each GPU": (
        11,
        (
            gang("a", 0, 1),
            gang("b", 1, 2),
            gang("c", 2, 0),
            single("s", 0),
            single("t", 1),
            single("u", 2),
        ),
    ),
    "three gangs on the same three GPUs": (15, tuple(gang(name, 0, 1, 2) for name in "abc")),
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("capacity", "jobs"), CASES.values(), ids=CASES)
def test_no_order_of_events_gets_stuck(capacity: int, jobs: tuple[Job, ...]) -> None:
    search = StateSearch(capacity, jobs).run()
    print(f"{search.states} states, {search.contested} contested, {search.unsettled} unsettled")
    assert search.stuck is None, search.stuck
    assert search.states > 20_000
