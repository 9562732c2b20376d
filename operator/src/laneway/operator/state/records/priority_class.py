"""A PriorityClass: the number behind a name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PriorityClassRecord:
    """One PriorityClass as the cluster has it."""

    name: str
    value: int
    is_default: bool


def parse_priority_class(raw: dict[str, Any]) -> PriorityClassRecord:
    """Read a PriorityClass."""
    return PriorityClassRecord(raw["metadata"]["name"], int(raw["value"]), bool(raw.get("globalDefault")))
