"""How strongly a container is held to its quota: the levels, weakest first, and their order."""

from __future__ import annotations

from enum import StrEnum


class Enforcement(StrEnum):
    """What holds a container to its quota, the strongest means in force. Each level has all weaker ones beneath it."""

    NONE = "None"
    """No client has connected."""
    COOPERATIVE = "Cooperative"
    """The client in the container takes turns, and holds PyTorch's allocator to the quota."""
    WATCHDOG = "Watchdog"
    """The agent sees each process's memory on the GPU, and stops the processes of a container that stays over its quota."""
    INTERPOSER = "Interposer"
    """A library in each of its processes refuses memory beyond the quota, exact to the allocation."""
    MPS = "MPS"
    """The driver itself refuses memory beyond the quota to the clients of the MPS server."""


LEVELS = tuple(Enforcement)
"""Weakest first."""

_RANK = {level.value: rank for rank, level in enumerate(LEVELS)}


def reaches(level: Enforcement | str, minimum: Enforcement | str) -> bool:
    """Whether a level is a minimum or stronger.

    Raises:
        KeyError: one of them is no level.
    """
    return _RANK[level] >= _RANK[minimum]


def stronger(one: Enforcement | str, other: Enforcement | str) -> Enforcement:
    """Return the stronger of two levels."""
    return Enforcement(max(one, other, key=_RANK.__getitem__))


def shortfall(minimum: str, level: Enforcement | str, reason: str) -> str:
    """Return why a container that demands a minimum is not held to its quota as it demands, as a clause.

    Args:
        minimum: what its pod demands, as its annotation spells it; empty: nothing.
        level: what is in force on its GPU.
        reason: why that is no more; empty where the node is asked for no more.

    Returns:
        The clause; empty where the level suffices.
    """
    if not minimum:
        return ""
    levels = [each.value for each in LEVELS if each is not Enforcement.NONE]
    if minimum not in levels:
        return f"it demands the enforcement {minimum!r}, which is no level: write one of {', '.join(levels)}"
    if reaches(level, minimum):
        return ""
    why = reason or "the node's configuration asks for no more (enforcement.level)"
    return f"it demands the enforcement {minimum!r}, and {str(level)!r} is in force on its GPU: {why}"
