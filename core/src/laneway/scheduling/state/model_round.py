"""The round under way: which jobs run on which GPU model until it ends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from laneway.scheduling.model.snapshot import Job


@dataclass(frozen=True, slots=True)
class ModelRound:
    """A round; by default none is under way, and jobs run where they fit."""

    began_seconds: float = -math.inf
    settles_seconds: float = -math.inf
    """From when on jobs that are not assigned may take what is idle, in any case."""

    ends_seconds: float = math.inf
    assigned: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The GPU model of each job that runs in the round."""

    outside: frozenset[str] = frozenset()
    """Jobs that take part in no round."""

    is_settling: bool = False
    """Whether an assigned job has no GPUs yet, and the others leave it theirs."""

    def settled(self, jobs: Mapping[str, Job], now_seconds: float) -> ModelRound:
        """Return the round as it is now."""
        is_settling = now_seconds < self.settles_seconds and any(
            key in jobs and (not jobs[key].placement or jobs[key].state.is_releasing) for key in self.assigned
        )
        return self if is_settling is self.is_settling else replace(self, is_settling=is_settling)

    def holds_back(self, key: str) -> bool:
        """Whether a waiting job leaves idle GPUs to assigned jobs."""
        return self.is_settling and key not in self.assigned and key not in self.outside

    def next_seconds(self) -> float:
        """Return when time alone changes what may start."""
        return self.settles_seconds if self.is_settling else self.ends_seconds
