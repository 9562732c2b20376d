"""What a slow viewer still has to be sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.board.api_server import (
    Change,
    Changed,
    Listed,
    Lost,
    RefusedError,
    Regained,
    Removed,
    UnreachableError,
    View,
)
from laneway.board.feed import Pending, failure

_views = st.builds(lambda key, value: View(key, b"%d" % value), st.sampled_from("abcd"), st.integers(0, 9))
_changes = st.one_of(
    st.builds(Listed, st.lists(_views, max_size=4, unique_by=lambda view: view.key)),
    st.builds(Changed, _views),
    st.builds(Removed, _views),
)


def _shown(objects: dict[str, Any], message: dict[str, Any] | None) -> dict[str, Any]:
    """What the page shows after a message, as `state.js` has it."""
    if message is None:
        return objects
    shown = {} if message["reset"] else dict(objects)
    for key in message["removed"]:
        shown.pop(key, None)
    return shown | {view.key: view for view in message["set"]}


@given(st.lists(st.lists(_changes, max_size=6), max_size=6))
def test_a_page_that_gets_changes_together_shows_what_one_shows_that_gets_each(
    batches: list[list[Change]],
) -> None:
    together: dict[str, Any] = {}
    each: dict[str, Any] = {}
    for batch in batches:
        pending = Pending()
        for change in batch:
            pending.add(change)
            one = Pending()
            one.add(change)
            each = _shown(each, one.message())
        together = _shown(together, pending.message())
    assert together == each


@given(st.lists(_changes, max_size=50))
def test_it_holds_one_view_an_object_at_most(changes: list[Change]) -> None:
    pending = Pending()
    for change in changes:
        pending.add(change)
    message = pending.message() or {"set": [], "removed": []}
    keys = [view.key for view in message["set"]]
    assert len(keys) == len(set(keys)) <= 4
    assert not set(keys) & set(message["removed"])


def test_nothing_new_is_no_message() -> None:
    assert Pending().message() is None


def test_only_the_newest_state_of_a_source_is_sent() -> None:
    pending = Pending()
    pending.add(Lost(UnreachableError("no")))
    assert (pending.message() or {})["source"]["state"] == "unreachable"
    for regained in (Regained(), Listed([])):
        pending.add(Lost(RefusedError(403, "no")))
        pending.add(regained)
        assert (pending.message() or {})["source"]["state"] == "live"


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (RefusedError(401, "Unauthorized"), "unauthenticated"),
        (RefusedError(403, "no"), "forbidden"),
        (RefusedError(404, "no"), "missing"),
        (RefusedError(599, "no"), "failed"),
        (UnreachableError("no"), "unreachable"),
    ],
)
def test_a_failure_says_what_kind_it_is(error: RefusedError | UnreachableError, state: str) -> None:
    assert failure(error) == {"state": state, "message": str(error)}
