"""Holds whose container is gone: their last figures are told for a while."""

from __future__ import annotations

from collections.abc import Iterator

from laneway.node_agent.turns.hold import Hold


class EndedHolds:
    """One a key: a key is given to the next container that gets the same ids."""

    def __init__(self) -> None:
        self._holds: dict[str, tuple[Hold, float]] = {}

    def __iter__(self) -> Iterator[Hold]:
        return (hold for hold, _ in self._holds.values())

    def add(self, hold: Hold, now_seconds: float) -> None:
        """Keep a hold from now on."""
        self._holds[hold.key] = (hold, now_seconds)

    def drop(self, key: str) -> None:
        """Forget a hold, because its key has another owner."""
        self._holds.pop(key, None)

    def drop_before(self, until_seconds: float) -> bool:
        """Forget those that ended before a time; returns whether there were any."""
        before = len(self._holds)
        self._holds = {key: entry for key, entry in self._holds.items() if entry[1] > until_seconds}
        return len(self._holds) < before
