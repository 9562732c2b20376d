"""The measured liveness of the storages that an iteration saves for its backward pass.

Events cut an iteration into **segments**; an event is a storage being saved for the backward pass, or read by
it. Segment 0 comes before the first event, segment *n* after event *n − 1*. The iteration is measured with
every saved storage on the host between these two events. So no plan can go below the measured peaks by moving
storages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional


@dataclass(frozen=True)
class StorageLifetime:
    """One storage that autograd saves; all its views together."""

    size_bytes: int
    released_at: int
    """The segment in which its last other owner released it. From here on it costs memory, unless it is
    offloaded."""
    needed_at: int
    """The segment that ends with the event that reads it; until then it may be offloaded. If it precedes
    `released_at`, moving frees nothing."""
    hidden_seconds: float = 0.0
    """How long the device computes between the two."""


@dataclass(frozen=True)
class ModuleCost:
    """A module whose forward can be run again in the backward pass, instead of keeping its saved storages."""

    name: str
    forward_seconds: float
    working_bytes: int
    """The peak of its forward beyond what is held when it begins."""
    storages: tuple[int, ...]
    """The storages that only this module saves and reads, by index."""
    enclosing: Optional[int] = None
    """The next larger recorded module around it, by index."""
    kept_bytes: int = 0
    """Inputs that nothing else keeps: needed from when its own storages are saved until it is recomputed."""


@dataclass(frozen=True)
class Liveness:
    """The liveness table of one iteration."""

    peaks_bytes: tuple[int, ...]
    """The most held in each segment, with every storage offloaded."""
    storages: tuple[StorageLifetime, ...]
    """In the order in which they are saved."""
    modules: tuple[ModuleCost, ...] = ()


@dataclass(frozen=True)
class Rates:
    """The cost of copying on this machine."""

    copy_bytes_per_second: float
    copy_overhead_seconds: float = 20e-6
    """For each copy, regardless of its size."""
    overlaps: bool = False
    """Copies run while the device computes."""

    def move_seconds(self, storage: StorageLifetime) -> float:
        """Returns the time that moving a storage to the host and back adds to the iteration."""
        copies_seconds = 2 * storage.size_bytes / self.copy_bytes_per_second
        if self.overlaps:
            copies_seconds = max(0.0, copies_seconds - storage.hidden_seconds)
        return 2 * self.copy_overhead_seconds + copies_seconds
