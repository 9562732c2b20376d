"""Divisions that are remembered: many of small parts, few of large ones, whose size would fill the operator's memory."""

from __future__ import annotations

import gc

import pytest
from laneway.scheduling.allocation.optimal import Optimal
from laneway.scheduling.allocation.parts import Part
from laneway.scheduling.allocation.policy import NodeCapacity, PlacedGang, PlacedWorker
from laneway.scheduling.allocation.tune import Tune

NODES = 12


@pytest.mark.parametrize("policy", [Tune(), Optimal()], ids=["tune", "optimal"])
def test_few_divisions_of_large_parts_are_kept(policy: Tune | Optimal) -> None:
    """Gangs that span nodes connect all of them, so each other number of CPUs makes another part of the whole cluster."""
    gangs = [
        PlacedGang(
            f"g{at}", tuple(PlacedWorker(each, f"n{(at + each) % NODES}", 100) for each in (0, 1)), None
        )
        for at in range(NODES)
    ]
    for cpus in range(100):
        nodes = [NodeCapacity(f"n{at}", 200, 10_000 + cpus, 2**30) for at in range(NODES)]
        assert len(policy.allot(nodes, gangs)) == NODES
    kept = [each for each in gc.get_objects() if isinstance(each, Part) and len(each.gangs) == NODES]
    assert len(kept) < 50
