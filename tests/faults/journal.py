"""Who wrote what, and when it landed: the proxies' record of every write."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Write:
    """One write that the API server carried out."""

    writer: str
    """Which replica, in which of its lives: ``a/1``."""

    what: str
    """``METHOD path``."""

    version: int | None
    """The resource version that it made; None where the answer has none."""

    began_seconds: float
    ended_seconds: float
    """When the proxy passed it on, and when it was answered, on the proxy's monotonic clock."""


@dataclass(slots=True)
class Journal:
    """All writes of one cell in the order in which they were answered; those of leases are kept apart."""

    writes: list[Write] = field(default_factory=list)
    leases: list[Write] = field(default_factory=list)

    def note(self, write: Write, *, lease: bool) -> None:
        """Take note of a write that was carried out."""
        (self.leases if lease else self.writes).append(write)

    def second_writers(self) -> list[str]:
        """Return a sentence for each write that landed after the first write of a later writer.

        Writers are put in the order of their first writes. Where versions are known they decide, as they are the order in which
        the API server itself carried things out; else it must have been answered before the later one's was sent.
        """
        first: dict[str, Write] = {}
        for write in sorted(self.writes, key=lambda each: each.version or 0):
            if write.version is not None:
                first.setdefault(write.writer, write)
        order = list(first)
        late = []
        for earlier, later in itertools.pairwise(order):
            begin = first[later]
            for write in self.writes:
                if write.writer == earlier and _landed_after(write, begin):
                    late.append(
                        f"{earlier} wrote {write.what} (version {write.version}) after {later} had written {begin.what} "
                        f"(version {begin.version})"
                    )
        return late


def _landed_after(write: Write, begin: Write) -> bool:
    if write.version is not None and begin.version is not None:
        return write.version > begin.version
    return write.ended_seconds > begin.began_seconds and write.began_seconds > begin.ended_seconds
