"""Computes the available memory of a simulated GPU for each process.

A real GPU fails an allocation that exceeds its free memory. The client of a simulated GPU does so by the
figure in its page. It is refreshed a few times a second, so two processes that grow at the same moment may
both succeed once.
"""

from __future__ import annotations

from collections.abc import Sequence

from laneway.node_agent.turns.session import Page


def write_available_memory(pages: Sequence[Page], memory_bytes: int, external_bytes: int) -> None:
    """Write into each page how much its process may hold.

    Args:
        pages: of all processes on the GPU.
        memory_bytes: the GPU's memory.
        external_bytes: memory used by other processes.
    """
    used = [max(page.held_bytes, page.peak_bytes) if page.inside else page.held_bytes for page in pages]
    total_bytes = sum(used) + external_bytes
    for page, own_bytes in zip(pages, used, strict=True):
        page.write_available(max(1, memory_bytes - (total_bytes - own_bytes)))
