"""Which of several GPUs lie near one another: NVLink first, then the same NUMA node.

Growing a set from every GPU as a start and keeping the best is exact for the topologies that are built (pairs, rings of
pairs, cliques behind a switch) and takes polynomial time for any.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from laneway.api.inventory import InventoryGPU


def linked(one: InventoryGPU, other: InventoryGPU) -> bool:
    """Whether NVLink joins two GPUs (either may report it)."""
    return other.uuid in one.nvlink_peers or one.uuid in other.nvlink_peers


def nearest(candidates: Sequence[InventoryGPU], count: int, obliged: Collection[str] = ()) -> tuple[str, ...]:
    """Return the uuids of ``count`` of the candidates, those in ``obliged`` among them, as near as can be.

    Among equals the set that breaks the fewest links to GPUs left over wins, so that joined groups stay whole for who
    needs them; then the order of the candidates decides. Empty when there are too few candidates.
    """
    must = [gpu for gpu in candidates if gpu.uuid in obliged]
    if count > len(candidates) or len(must) > count or len(must) < len(set(obliged)):
        return ()
    if count == 1:
        return ((must or list(candidates))[0].uuid,)
    graph = _Graph(candidates)
    starts = [[gpu.uuid for gpu in must]] if must else [[gpu.uuid] for gpu in candidates]
    grown = [graph.grow(start, count) for start in starts]
    best = max(range(len(grown)), key=lambda place: (*graph.score(grown[place]), -place))
    return tuple(sorted(grown[best], key=graph.order.__getitem__))


class _Graph:
    """The candidates and who of them is joined to whom."""

    def __init__(self, candidates: Sequence[InventoryGPU]) -> None:
        self.order = {gpu.uuid: place for place, gpu in enumerate(candidates)}
        self._numa = {gpu.uuid: gpu.numa_node for gpu in candidates}
        self._links = {
            one.uuid: {other.uuid for other in candidates if one is not other and linked(one, other)}
            for one in candidates
        }

    def grow(self, start: Sequence[str], count: int) -> list[str]:
        """Add to the start, one by one, the candidate that lies nearest to those already chosen."""
        chosen = list(start)
        while len(chosen) < count:
            rest = [uuid for uuid in self.order if uuid not in chosen]
            chosen.append(max(rest, key=lambda uuid: (*self._gain(uuid, chosen), -self.order[uuid])))
        return chosen

    def score(self, chosen: Sequence[str]) -> tuple[int, int, int]:
        """Compare sets by this: links within, pairs on one NUMA node, links that are broken (fewer is better)."""
        gains = [self._gain(uuid, [other for other in chosen if other != uuid]) for uuid in chosen]
        return sum(gain[0] for gain in gains), sum(gain[1] for gain in gains), sum(gain[2] for gain in gains)

    def _gain(self, uuid: str, chosen: Sequence[str]) -> tuple[int, int, int]:
        links, numa = self._links[uuid], self._numa[uuid]
        within = sum(other in links for other in chosen)
        same_numa = sum(numa is not None and self._numa[other] == numa for other in chosen)
        return within, same_numa, within - len(links)
