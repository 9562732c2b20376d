"""Which of a node's GPUs are closest to one another: NVLink peers first, then GPUs of one NUMA node."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.scheduling.model.snapshot import GPU

Closeness = tuple[int, int, int]
"""Pairs linked by NVLink, pairs on one NUMA node, and the negative number of cut links: larger is closer."""


def closest(gpus: Sequence[GPU], count: int) -> list[GPU]:
    """Return ``count`` GPUs that are close to one another, and leave others that are close too.

    From each GPU, a set grows by the GPU closest to it, and the best set wins. This is exact if links form groups (an
    NVSwitch, pairs, quads), as on machines in use. Ties keep the given order.

    Args:
        gpus: of one node; at least ``count``.
        count: from 1 up.
    """
    if count == len(gpus) or not _differ(gpus):
        return list(gpus[:count])
    sets = [_grown(seed, gpus, count) for seed in gpus]
    best = max(sets, key=lambda chosen: closeness(chosen, gpus))
    return [gpu for gpu in gpus if gpu in best]


def closeness(chosen: Sequence[GPU], gpus: Sequence[GPU]) -> Closeness:
    """Return how close GPUs are to one another, and to the rest of ``gpus``."""
    names = {gpu.uuid for gpu in chosen}
    inside = sum(len(gpu.nvlink_peers & names) for gpu in chosen)
    beyond = {gpu.uuid for gpu in gpus} - names
    cut = sum(len(gpu.nvlink_peers & beyond) for gpu in chosen)
    numa = [gpu.numa_node for gpu in chosen if gpu.numa_node is not None]
    pairs = sum(numa.count(node) * (numa.count(node) - 1) for node in set(numa))
    return inside // 2, pairs // 2, -cut


def _differ(gpus: Sequence[GPU]) -> bool:
    """Whether the choice matters: not if all or none are linked within one NUMA node."""
    names = {gpu.uuid for gpu in gpus}
    links = {len(gpu.nvlink_peers & names) for gpu in gpus}
    return len({gpu.numa_node for gpu in gpus}) > 1 or links not in ({0}, {len(gpus) - 1})


def _grown(seed: GPU, gpus: Sequence[GPU], count: int) -> list[GPU]:
    chosen = [seed]
    rest = [gpu for gpu in gpus if gpu is not seed]
    while len(chosen) < count:
        best = max(rest, key=lambda gpu: _nearness(gpu, chosen))
        chosen.append(best)
        rest.remove(best)
    return chosen


def _nearness(gpu: GPU, chosen: Sequence[GPU]) -> tuple[int, int]:
    linked = sum(other.uuid in gpu.nvlink_peers for other in chosen)
    return linked, sum(other.numa_node == gpu.numa_node for other in chosen)
