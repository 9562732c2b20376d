"""How a number of hundredths may be laid over GPUs.

Up to one GPU's offer is a part of one GPU, because frameworks cannot combine fractions of two GPUs. More is
whole GPUs: either 100 of each (others may hold the rest of an overcommitted GPU), or for exclusive use all
that may take turns on each. The rest of what it offers is for paused jobs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laneway.api.gpu_sharing import ACTIVE_PERCENT
from laneway.api.inventory import InventoryGPU

WHOLE_PERCENT = 100


@dataclass(frozen=True)
class GPULayout:
    """``percent`` of each of ``gpus`` GPUs."""

    gpus: int
    percent: int


def layouts_for(size: int, offer_percent: int) -> tuple[GPULayout, ...]:
    """Return the ways to lay ``size`` hundredths over GPUs that offer ``offer_percent`` each, the best
    first."""
    if size <= WHOLE_PERCENT:
        return (GPULayout(1, size),)
    found = []
    for percent in (WHOLE_PERCENT, _exclusive_percent(offer_percent), offer_percent):
        layout = GPULayout(size // percent, percent)
        if size % percent == 0 and layout not in found:
            found.append(layout)
    if not found and size < offer_percent:
        found.append(GPULayout(1, size))
    return tuple(found)


def split_error(shares: Mapping[str, int], gpus: Sequence[InventoryGPU]) -> str:
    """Return why these shares (percent by GPU uuid) split a fraction over GPUs; empty if they do not."""
    offers = {gpu.uuid: gpu.allocatable_percent for gpu in gpus}
    if len(shares) == 1:
        return ""
    if all(percent == WHOLE_PERCENT for percent in shares.values()):
        return ""
    if all(percent == offers[uuid] for uuid, percent in shares.items()):
        return ""
    if all(percent == _exclusive_percent(offers[uuid]) for uuid, percent in shares.items()):
        return ""
    parts = ", ".join(f"{percent} of {uuid}" for uuid, percent in sorted(shares.items()))
    return (
        f"{sum(shares.values())} percent would be split over GPUs ({parts}): request 1 to {WHOLE_PERCENT} for a "
        f"part of one GPU, or a multiple of {WHOLE_PERCENT} for whole GPUs"
    )


def _exclusive_percent(offer_percent: int) -> int:
    """Return what a job for exclusive use requests of a GPU."""
    return min(offer_percent, ACTIVE_PERCENT["lanes"])
