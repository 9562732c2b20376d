"""What each node has left beside GPUs in one view, looked up again only where it changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from laneway.scheduling.gpus.host_limits import Left


class HostsLeft:
    """By number of a node: what it has left for the requests of jobs' pods; None where nothing limits them."""

    def __init__(self, nodes: int) -> None:
        self._left: list[Left | None] = [None] * nodes
        self._stale = set(range(nodes))
        self.in_use = False
        """Whether anything was asked; else changes need not be noted."""

    def note(self, nodes: Iterable[int]) -> None:
        """Note that what these nodes have left may have changed."""
        self._stale.update(nodes)

    def of(self, look: Callable[[int], Left | None]) -> Sequence[Left | None]:
        """Return what is left now.

        Args:
            look: returns what a node has left.
        """
        self.in_use = True
        for node in self._stale:
            self._left[node] = look(node)
        self._stale.clear()
        return self._left
