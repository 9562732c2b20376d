"""How a number of hundredths may be laid over GPUs.

Up to one GPU's offer is a part of ONE GPU: a fraction over two GPUs would be two fractions that no framework can use
together. More is whole GPUs: either 100 of each (who shares the GPU with others, when it is overcommitted, may hold
the rest), or all that each has on offer (who has the GPU alone).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laneway.api.inventory import InventoryGPU

WHOLE_PERCENT = 100


@dataclass(frozen=True)
class Shape:
    """``percent`` of each of ``gpus`` GPUs."""

    gpus: int
    percent: int


def shapes_for(size: int, offer_percent: int) -> tuple[Shape, ...]:
    """Return the ways to lay ``size`` hundredths over GPUs that offer ``offer_percent`` each, the best first."""
    if size <= WHOLE_PERCENT:
        return (Shape(1, size),)
    found = []
    for percent in (WHOLE_PERCENT, offer_percent):
        shape = Shape(size // percent, percent)
        if size % percent == 0 and shape not in found:
            found.append(shape)
    if not found and size < offer_percent:
        found.append(Shape(1, size))
    return tuple(found)


def why_not(shares: Mapping[str, int], gpus: Sequence[InventoryGPU]) -> str:
    """Return why shares (percent by GPU uuid) are no shape that a container may hold, or an empty text."""
    offers = {gpu.uuid: gpu.allocatable_percent for gpu in gpus}
    if len(shares) == 1:
        return ""
    if all(percent == WHOLE_PERCENT for percent in shares.values()):
        return ""
    if all(percent == offers[uuid] for uuid, percent in shares.items()):
        return ""
    parts = ", ".join(f"{percent} of {uuid}" for uuid, percent in sorted(shares.items()))
    return (
        f"{sum(shares.values())} percent would be split over GPUs ({parts}): ask for 1 to {WHOLE_PERCENT} to get a "
        f"part of one GPU, or for a multiple of {WHOLE_PERCENT} to get whole GPUs"
    )
