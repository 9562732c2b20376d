"""What is left of a simulated GPU's memory for each process: a real one fails an allocation that it has no room for, whoever
has the rest. The client of a simulated GPU does so by the figure in its page; it is refreshed a few times a second, so two
processes that grow in the same moment may both find room once.
"""

from __future__ import annotations

from collections.abc import Sequence

from laneway.node_agent.turns.session import Page


def share_out(pages: Sequence[Page], memory_bytes: int, beyond_bytes: int) -> None:
    """Write into each page how much its process may hold.

    Args:
        pages: of all processes on the GPU.
        memory_bytes: the GPU's memory.
        beyond_bytes: taken by nobody of these.
    """
    taken = [max(page.held_bytes, page.highest_bytes) if page.inside else page.held_bytes for page in pages]
    total_bytes = sum(taken) + beyond_bytes
    for page, own_bytes in zip(pages, taken, strict=True):
        page.show_room(max(1, memory_bytes - (total_bytes - own_bytes)))
