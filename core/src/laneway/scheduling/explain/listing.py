"""Names of jobs in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

NAMED = 3
"""The most jobs that a sentence names; the others are counted."""


def listed(keys: Sequence[str]) -> str:
    """Return the names of a few jobs, and the number of the others."""
    if len(keys) <= NAMED:
        return " and ".join([", ".join(keys[:-1]), keys[-1]] if len(keys) > 1 else keys)
    return f"{', '.join(keys[:NAMED])} and {len(keys) - NAMED} more"
