"""Numbers GPUs in the order of (node, index, uuid), and nodes in the order of their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from laneway.scheduling.model.gpu_class import GPUClass
from laneway.scheduling.model.snapshot import GPU


class Pool(NamedTuple):
    """The GPUs of one class on one node."""

    node: int
    gpu_class: GPUClass


def in_order(gpus: Iterable[GPU]) -> list[GPU]:
    """Return the GPUs of one node in the order of their numbers."""
    return sorted(gpus, key=lambda gpu: (gpu.index, gpu.uuid))


def interned(classes: Iterable[GPUClass]) -> tuple[GPUClass, ...]:
    """Return equal classes as one object, so that looking them up in a dict need not compare them."""
    seen: dict[GPUClass, GPUClass] = {}
    return tuple(seen.setdefault(each, each) for each in classes)


def grouped(node_numbers: Iterable[int], count: int) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of each node's GPUs, given the number of each GPU's node."""
    groups: list[list[int]] = [[] for _ in range(count)]
    for gpu, node in enumerate(node_numbers):
        groups[node].append(gpu)
    return tuple(tuple(group) for group in groups)
