"""The proxies' record of every write: its writer and when it landed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Write:
    """One write that the API server carried out."""

    writer: str
    """Which replica, in which of its lives: ``a/1``."""

    what: str
    """``METHOD path``."""

    version: int
    """The resource version that it made: the order in which the API server itself carried things out."""

    came_seconds: float
    answered_seconds: float
    """When it came to the proxy and when the API server had answered it, on the proxy's monotonic clock."""


@dataclass(slots=True)
class Journal:
    """All writes of one cell; those of the lease are kept apart, as they say whose turn it is."""

    writes: list[Write] = field(default_factory=list)
    leases: list[Write] = field(default_factory=list)
    continued: list[tuple[str, float]] = field(default_factory=list)
    """Which process continued after it had been stopped, and when."""

    _newest: int = 0
    _versions: set[int] = field(default_factory=set)

    def note(self, writer: str, what: str, version: int | None, came_seconds: float, *, lease: bool) -> None:
        """Take note of a write that was carried out; one whose answer has no version lands where it was answered. One that is answered with a
        version that was there before has changed nothing: it says what another write had said."""
        if version in self._versions:
            return
        if version is not None:
            self._versions.add(version)
        self._newest = max(self._newest, version or 0)
        write = Write(writer, what, version or self._newest, came_seconds, time.monotonic())
        (self.leases if lease else self.writes).append(write)

    def written_out_of_turn(self) -> list[str]:
        """Return a sentence for each write that landed when somebody else had written the lease already, or nobody had.

        Left out is what was in mid-air (:meth:`late`): it cannot be called back, and is covered by the other invariants.
        """
        return [
            f"{write.writer} wrote {write.what} at version {write.version}; the lease was with "
            f"{'nobody' if turn is None else f'{turn.writer} (since version {turn.version})'}"
            for write, turn, in_mid_air in self._out_of_turn()
            if not in_mid_air
        ]

    def late(self) -> frozenset[int]:
        """Return the versions that were made by what was in mid-air when another wrote the lease.

        That is what had come to the proxy before the API server answered who wrote the lease; and what a process was about to send
        when it was stopped, which goes out when the process goes on. What follows from the answer to it is not.
        """
        return frozenset(write.version for write, _, in_mid_air in self._out_of_turn() if in_mid_air)

    def _out_of_turn(self) -> Iterator[tuple[Write, Write | None, bool]]:
        """Give each such write, whose turn it was by the last write of the lease, and whether it was in mid-air."""
        turns = sorted(self.leases, key=lambda each: each.version)
        late: list[Write] = []
        for write in sorted(self.writes, key=lambda each: each.came_seconds):
            turn = next((each for each in reversed(turns) if each.version <= write.version), None)
            if turn is not None and turn.writer == write.writer:
                continue
            if turn is not None and write.came_seconds <= turn.answered_seconds:
                yield write, turn, True
                continue
            late.append(write)
            yield write, turn, self._was_about_to_be_sent(write, late)

    def _was_about_to_be_sent(self, write: Write, late: list[Write]) -> bool:
        """Whether it came before its sender can have heard of anything that it sent since it continued."""
        since_seconds = max(
            (when for life, when in self.continued if life == write.writer and when <= write.came_seconds),
            default=None,
        )
        if since_seconds is None:
            return False
        first = next(
            each for each in late if each.writer == write.writer and each.came_seconds >= since_seconds
        )
        return write is first or write.came_seconds <= first.answered_seconds
