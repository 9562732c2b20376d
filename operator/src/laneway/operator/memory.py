"""What the engine remembers from cycle to cycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Memory:
    """What the engine remembers from cycle to cycle. None of it is needed to go on after a restart."""

    refusals: Mapping[tuple[str, int], str]
    """By job uid and attempt: what the API server said when it refused one of the attempt's objects."""

    written_seconds: Mapping[str, float]
    """By job uid: when its status was last written."""

    template_refusals: Mapping[tuple[str, int], str] = field(default_factory=lambda: MappingProxyType({}))
    """By job uid and generation: what the API server said of a pod template when it was asked whether it would take it."""
