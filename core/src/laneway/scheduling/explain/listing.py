"""Names of jobs and pods in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

NAMED = 3
"""The most jobs that a sentence names; the others are counted."""


def listed(keys: Sequence[str]) -> str:
    """Return the names of a few jobs, and the number of the others."""
    if len(keys) <= NAMED:
        return " and ".join([", ".join(keys[:-1]), keys[-1]] if len(keys) > 1 else keys)
    return f"{', '.join(keys[:NAMED])} and {len(keys) - NAMED} more"


def names_of(keys: Sequence[str]) -> tuple[str, ...]:
    """Return the jobs and pods that keys name, each once and as ``namespace/name``.

    The key of a session that a node reported goes on after its pod's name, because a pod has a session on each of its GPUs.
    """
    return tuple(dict.fromkeys("/".join(key.split("/")[:2]) for key in keys))
