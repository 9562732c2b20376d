"""What uses a GPU without a share of it, as the watchdog last saw it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StrayUse:
    """A container that uses a GPU although it has no share of it."""

    pod: str
    """Its pod's uid."""

    processes: int
    message: str
    """A clause whose subject is the container."""


@dataclass(frozen=True, slots=True)
class StrayReport:
    """Everything that uses one GPU without a share of it."""

    pods: tuple[StrayUse, ...] = ()
    host_processes: int = 0
    """Processes in no pod."""

    warning: str = ""
    """About pods that have no container with a share on the node, as a clause; empty if there are none."""
