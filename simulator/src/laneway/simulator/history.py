"""What happened in a simulation, as far as reports and plots need it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Phase(StrEnum):
    """What a job does with the GPUs that it holds."""

    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"
    PARKED = "parked"
    """Paused or offloaded: it takes no turns."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A job held GPUs for a while."""

    job: str
    phase: Phase
    from_seconds: float
    to_seconds: float
    gpus: tuple[str, ...]
    """Uuids."""

    share_percent: int
    """Of each of these GPUs."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The cluster from a moment on, until the next."""

    seconds: float
    waiting_jobs: int
    running_jobs: int
    held_gpus: float
    """In fractions."""

    fragmented_ratio: float
    """Of the free GPU capacity: what lies on partly held GPUs, where no whole GPU can be had."""


@dataclass(slots=True)
class History:
    """A simulation's intervals and moments, in the order in which they ended and began."""

    intervals: list[Interval] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
