"""The proxies' record of every write: its writer and when it landed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Write:
    """One write that the API server carried out."""

    writer: str
    """The replica, and which of its processes: ``a/1``."""

    what: str
    """``METHOD path``."""

    version: int
    """The resource version that it created, which gives the API server's own order."""

    came_seconds: float
    answered_seconds: float
    """When it came to the proxy and when the API server had answered it, on the proxy's monotonic clock."""


@dataclass(slots=True)
class Journal:
    """All writes of one cell; writes of the lease are kept separately, because they tell who leads."""

    writes: list[Write] = field(default_factory=list)
    leases: list[Write] = field(default_factory=list)
    continued: list[tuple[str, float]] = field(default_factory=list)
    """Which process continued after it had been stopped, and when."""

    _newest: int = 0
    _versions: set[int] = field(default_factory=set)

    def note(self, writer: str, what: str, version: int | None, came_seconds: float, *, lease: bool) -> None:
        """Record a completed write. Without a version in its answer, it counts at the time of the answer. An
        answer with an earlier version means that the write changed nothing."""
        if version in self._versions:
            return
        if version is not None:
            self._versions.add(version)
        self._newest = max(self._newest, version or 0)
        write = Write(writer, what, version or self._newest, came_seconds, time.monotonic())
        (self.leases if lease else self.writes).append(write)

    def written_out_of_turn(self) -> list[str]:
        """Return a sentence for each write that landed when another replica had already written the lease, or
        none had. Writes in flight (:meth:`late`) are excluded: they cannot be called back, and the other
        invariants cover them.
        """
        return [
            f"{write.writer} wrote {write.what} at version {write.version}; the lease was with "
            f"{'nobody' if turn is None else f'{turn.writer} (since version {turn.version})'}"
            for write, turn, in_mid_air in self._out_of_turn()
            if not in_mid_air
        ]

    def late(self) -> frozenset[int]:
        """Return the versions created by writes in flight when another replica wrote the lease. These are the
        writes that had reached the proxy before the API server answered that replica, and the writes that a
        stopped process was about to send, which leave when it continues. Writes that follow from their
        answers are not included.
        """
        return frozenset(write.version for write, _, in_mid_air in self._out_of_turn() if in_mid_air)

    def _out_of_turn(self) -> Iterator[tuple[Write, Write | None, bool]]:
        """Yield each such write, the leader by the last write of the lease, and whether the write was in
        flight."""
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
        """Whether the write came before its sender could have an answer to anything that it sent since it continued."""
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
