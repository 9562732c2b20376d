"""Computes the available memory of a simulated GPU for each process.

A real GPU fails an allocation that exceeds its free memory. The client of a simulated GPU does so by the
figure in its page. It is refreshed a few times a second, so two processes that grow at the same moment may
both succeed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laneway.node_agent.turns.session import Page


class PageUse(NamedTuple):
    """A process's page, and whose iterations never overlap with its own."""

    page: Page
    container: str
    lane: int | None
    """The lane in which the container's ephemeral memory counts; None: it has none."""


def write_available_memory(uses: Sequence[PageUse], memory_bytes: int, external_bytes: int) -> None:
    """Write into each page how much its process may hold.

    Another container of the same lane counts with what it holds between iterations: its activations are free before this process has
    the turn. The figure must not show them, because it is older than the hand-off.

    Args:
        uses: all processes on the GPU.
        memory_bytes: the GPU's memory.
        external_bytes: memory used by other processes.
    """
    for use in uses:
        others_bytes = sum(_seen_by(use, other) for other in uses if other is not use)
        use.page.write_available(max(1, memory_bytes - others_bytes - external_bytes))


def _seen_by(use: PageUse, other: PageUse) -> int:
    """Return how much another process holds while this one computes."""
    takes_turns = other.lane is not None and other.lane == use.lane and other.container != use.container
    page = other.page
    return max(page.held_bytes, page.peak_bytes) if page.inside and not takes_turns else page.held_bytes
