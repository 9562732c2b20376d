"""What an iteration keeps for its backward pass, as it was measured: when each storage is needed, and how much is held beside.

An iteration is cut into **segments** by its events (a storage is kept for the backward pass, or is read by it): segment 0 comes before
the first event, segment *n* after event *n − 1*. It is measured while every storage of the table is away, on the host, from the event that
keeps it until the one that reads it; so the crests are what no plan can go below by moving storages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class SavedStorage:
    """One storage that autograd keeps; views of it count as one."""

    size_bytes: int
    gone_at: int
    """The segment in which its last other owner let go of it: from here on it costs memory, if it is not away."""
    needed_at: int
    """The segment that ends with the event that reads it: up to here it may be away. Before `gone_at`: moving it frees nothing."""
    hidden_seconds: float = 0.0
    """How long the device computes between the two."""


@dataclass(frozen=True)
class ModuleCost:
    """A module whose forward pass can be run again in the backward pass, instead of keeping what is inside."""

    name: str
    forward_seconds: float
    working_bytes: int
    """What its forward needs at its peak beyond what is held when it begins."""
    storages: tuple[int, ...]
    """Those of the table that nobody outside of it keeps or reads."""
    within: Optional[int] = None
    """The next larger module of the table around it, by its index."""
    kept_bytes: int = 0
    """Its inputs, as far as nobody else keeps them: needed from when its own storages are, until it computes again."""


@dataclass(frozen=True)
class Liveness:
    """The table of one iteration."""

    crests_bytes: tuple[int, ...]
    """The most held in each segment, with every storage away."""
    storages: tuple[SavedStorage, ...]
    """In the order in which they are kept."""
    modules: tuple[ModuleCost, ...] = ()


@dataclass(frozen=True)
class Rates:
    """What moving costs here."""

    copy_bytes_per_second: float
    copy_overhead_seconds: float = 20e-6
    """Of each copy, whatever its size."""
    overlaps: bool = False
    """Copies go on while the device computes."""

    def move_seconds(self, storage: SavedStorage) -> float:
        """The time that a storage's way to the host and back adds to the iteration."""
        copies_seconds = 2 * storage.size_bytes / self.copy_bytes_per_second
        if self.overlaps:
            copies_seconds = max(0.0, copies_seconds - storage.hidden_seconds)
        return 2 * self.copy_overhead_seconds + copies_seconds
