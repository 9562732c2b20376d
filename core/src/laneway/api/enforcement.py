"""How strongly a container is held to its quota: the levels, weakest first, and their order."""

from __future__ import annotations

from enum import StrEnum


class Enforcement(StrEnum):
    """What holds a container to its quota, the strongest means in force. Each level has all weaker ones beneath it."""

    NONE = "none"
    """No client has connected."""
    COOPERATIVE = "cooperative"
    """The client in the container takes turns, and holds PyTorch's allocator to the quota."""
    WATCHDOG = "watchdog"
    """The agent sees each process's memory on the GPU, and stops the processes of a container that stays over its quota."""
    MPS = "mps"
    """The driver itself refuses memory beyond the quota to the clients of the MPS server."""


LEVELS = tuple(Enforcement)
"""Weakest first."""


def reaches(level: Enforcement | str, minimum: Enforcement | str) -> bool:
    """Whether a level is a minimum or stronger.

    Raises:
        ValueError: one of them is no level.
    """
    return LEVELS.index(Enforcement(level)) >= LEVELS.index(Enforcement(minimum))


def weaker(one: Enforcement | str, other: Enforcement | str) -> Enforcement:
    """Return the weaker of two levels."""
    return min(Enforcement(one), Enforcement(other), key=LEVELS.index)


def stronger(one: Enforcement | str, other: Enforcement | str) -> Enforcement:
    """Return the stronger of two levels."""
    return max(Enforcement(one), Enforcement(other), key=LEVELS.index)
