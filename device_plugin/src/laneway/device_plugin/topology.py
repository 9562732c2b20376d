"""Finds sets of GPUs that are close in the topology: NVLink first, then the same NUMA node.

A set is grown from every GPU, and the best one is kept. This is exact for real topologies (pairs, rings of
pairs, cliques behind a switch) and takes polynomial time for any.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from laneway.api.inventory import InventoryGPU


def nvlinked(first: InventoryGPU, other: InventoryGPU) -> bool:
    """Return whether NVLink connects two GPUs (either may report it)."""
    return other.uuid in first.nvlink_peers or first.uuid in other.nvlink_peers


def closest_gpus(
    candidates: Sequence[InventoryGPU], count: int, required: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the uuids of the ``count`` closest candidates, including those in ``required``.

    Among equal sets, the one that breaks the fewest links to other GPUs wins, so that connected groups stay
    whole. Then the order of the candidates decides. Empty if there are too few candidates.
    """
    must = [gpu for gpu in candidates if gpu.uuid in required]
    if count > len(candidates) or len(must) > count or len(must) < len(set(required)):
        return ()
    if count == 1:
        return ((must or list(candidates))[0].uuid,)
    graph = _Graph(candidates)
    starts = [[gpu.uuid for gpu in must]] if must else [[gpu.uuid] for gpu in candidates]
    grown = [graph.grow(start, count) for start in starts]
    best = max(range(len(grown)), key=lambda place: (*graph.score(grown[place]), -place))
    return tuple(sorted(grown[best], key=graph.order.__getitem__))


class _Graph:
    """The NVLink graph of the candidates."""

    def __init__(self, candidates: Sequence[InventoryGPU]) -> None:
        self.order = {gpu.uuid: place for place, gpu in enumerate(candidates)}
        self._numa = {gpu.uuid: gpu.numa_node for gpu in candidates}
        self._links = {
            first.uuid: {other.uuid for other in candidates if first is not other and nvlinked(first, other)}
            for first in candidates
        }

    def grow(self, start: Sequence[str], count: int) -> list[str]:
        """Add to the start, one by one, the candidate closest to those already chosen."""
        chosen = list(start)
        while len(chosen) < count:
            rest = [uuid for uuid in self.order if uuid not in chosen]
            chosen.append(max(rest, key=lambda uuid: (*self._gain(uuid, chosen), -self.order[uuid])))
        return chosen

    def score(self, chosen: Sequence[str]) -> tuple[int, int, int]:
        """Return a set's score: links within, pairs on one NUMA node, broken links (fewer is better)."""
        gains = [self._gain(uuid, [other for other in chosen if other != uuid]) for uuid in chosen]
        return sum(gain[0] for gain in gains), sum(gain[1] for gain in gains), sum(gain[2] for gain in gains)

    def _gain(self, uuid: str, chosen: Sequence[str]) -> tuple[int, int, int]:
        links, numa = self._links[uuid], self._numa[uuid]
        within = sum(other in links for other in chosen)
        same_numa = sum(numa is not None and self._numa[other] == numa for other in chosen)
        return within, same_numa, within - len(links)
