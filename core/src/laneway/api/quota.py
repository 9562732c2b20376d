"""How a share of a GPU translates into bytes of its memory, and back."""

from __future__ import annotations


def allocatable_bytes(memory_bytes: int, reserve_bytes: int) -> int:
    """Return what jobs may use of a GPU's memory: all but the reserve kept for frameworks' own use (CUDA contexts)."""
    return max(0, memory_bytes - reserve_bytes)


def quota_bytes(share_percent: int, allocatable: int) -> int:
    """Return how many bytes a share of a GPU entitles to; more than 100 percent entitles to no more than the GPU has."""
    return allocatable * min(share_percent, 100) // 100


def percent_for(memory_bytes: int, allocatable: int) -> int:
    """Return the smallest share, in percent, whose quota holds ``memory_bytes`` (over 100: the GPU is too small)."""
    if allocatable <= 0:
        return 101
    return max(1, -(-memory_bytes * 100 // allocatable))
