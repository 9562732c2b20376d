"""Which ids the kubelet should take for a container: a pure function of what is free and what was planned.

The GPU that the operator chose comes first. Who has no choice made for it gets, for a part of a GPU, the fullest GPU
that still holds it (best fit, so that large parts stay whole), and for several GPUs those that NVLink joins best. Room
that was promised to a pod that is on its way is left alone while there is any other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from laneway.api.device_ids import gpu_of
from laneway.api.inventory import InventoryGPU
from laneway.device_plugin.nearness import nearest
from laneway.device_plugin.shapes import Shape, shapes_for, why_not


@dataclass(frozen=True)
class Ask:
    """What the kubelet asks: ``size`` ids out of ``available``, with all of ``must_include`` among them."""

    size: int
    available: tuple[str, ...]
    must_include: tuple[str, ...] = ()


@dataclass(frozen=True)
class Wish:
    """The GPUs that the operator chose for a container of the asked size."""

    pod: str
    gpus: tuple[str, ...]


@dataclass(frozen=True)
class Preferred:
    """The ids to take, and why these."""

    ids: tuple[str, ...]
    reason: str


class NothingFitsError(Exception):
    """No GPU of the node holds the request in one piece; the text says what is free and what may be asked."""


def prefer(
    ask: Ask,
    gpus: Sequence[InventoryGPU],
    wishes: Sequence[Wish] = (),
    promised: Mapping[str, int] | None = None,
) -> Preferred:
    """Choose the ids for a container.

    Args:
        ask: what the kubelet asks.
        gpus: the node's GPUs.
        wishes: the operator's choices for the containers that this may be, the likeliest first.
        promised: percent of each GPU, by uuid, that the operator chose for other pods that hold no ids yet.

    Raises:
        NothingFitsError: no allowed choice exists.
    """
    free = _Free.of(ask, gpus)
    for wish in wishes:
        shape = _shape_of(wish, ask.size, gpus)
        if shape and free.serves(shape, wish.gpus):
            return Preferred(free.take(shape, wish.gpus), f"chosen by the operator for {wish.pod}")
    for kept, reason in ((promised or {}, "best fit"), ({}, "best fit, in room planned for another pod")):
        for shape in _shapes(ask.size, gpus):
            candidates = free.candidates(shape, kept)
            chosen = nearest(candidates, shape.gpus, free.obliged) if len(candidates) >= shape.gpus else ()
            if chosen and free.serves(shape, chosen):
                return Preferred(free.take(shape, chosen), reason)
    raise NothingFitsError(_sentence(ask.size, gpus, free))


def _shape_of(wish: Wish, size: int, gpus: Sequence[InventoryGPU]) -> Shape | None:
    """The wish as a shape; none where it names GPUs that are not here or would split a part of a GPU."""
    uuids = set(wish.gpus)
    if not uuids or size % len(uuids) or not uuids <= {gpu.uuid for gpu in gpus}:
        return None
    shape = Shape(len(uuids), size // len(uuids))
    return None if why_not(dict.fromkeys(uuids, shape.percent), gpus) else shape


def _shapes(size: int, gpus: Sequence[InventoryGPU]) -> list[Shape]:
    """The shapes of the size for every offer there is on the node (one, unless GPUs differ)."""
    offers = sorted({gpu.allocatable_percent for gpu in gpus}, reverse=True)
    return list(dict.fromkeys(shape for offer in offers for shape in shapes_for(size, offer)))


@dataclass(frozen=True)
class _Free:
    """The ids on offer by GPU, in the order in which they are to be taken: those that must be taken first."""

    ids: Mapping[str, Sequence[str]]
    obliged: Mapping[str, int]
    gpus: Mapping[str, InventoryGPU] = field(repr=False)

    @classmethod
    def of(cls, ask: Ask, gpus: Sequence[InventoryGPU]) -> _Free:
        known = {gpu.uuid: gpu for gpu in gpus}
        obliged: dict[str, int] = {}
        ids: dict[str, list[str]] = {}
        for identifier in dict.fromkeys((*ask.must_include, *sorted(ask.available, key=_slot_order))):
            uuid = gpu_of(identifier)
            must = identifier in ask.must_include
            if uuid not in known or not (must or known[uuid].healthy):
                continue
            ids.setdefault(uuid, []).append(identifier)
            if must:
                obliged[uuid] = obliged.get(uuid, 0) + 1
        return cls(ids, obliged, known)

    def serves(self, shape: Shape, uuids: Collection[str]) -> bool:
        """Whether these GPUs have the room, and hold all ids that must be taken."""
        return (
            all(len(self.ids.get(uuid, ())) >= shape.percent for uuid in uuids)
            and set(self.obliged) <= set(uuids)
            and all(count <= shape.percent for count in self.obliged.values())
        )

    def take(self, shape: Shape, uuids: Collection[str]) -> tuple[str, ...]:
        return tuple(
            identifier for uuid in dict.fromkeys(uuids) for identifier in self.ids[uuid][: shape.percent]
        )

    def candidates(self, shape: Shape, promised: Mapping[str, int]) -> list[InventoryGPU]:
        """The GPUs with room beside what is promised, the fullest first."""
        room = {uuid: len(ids) - promised.get(uuid, 0) for uuid, ids in self.ids.items()}
        fitting = [self.gpus[uuid] for uuid in room if room[uuid] >= shape.percent or uuid in self.obliged]
        return sorted(fitting, key=lambda gpu: (room[gpu.uuid], gpu.index))


def _slot_order(identifier: str) -> tuple[int, str]:
    """The ids of one GPU by slot: they differ only in a number at their end."""
    return len(identifier), identifier


def _sentence(size: int, gpus: Sequence[InventoryGPU], free: _Free) -> str:
    room = ", ".join(f"{gpu.uuid} {len(free.ids.get(gpu.uuid, ()))}" for gpu in gpus) or "no GPU"
    if not _shapes(size, gpus):
        return (
            f"{size} percent is more than one GPU and no number of whole GPUs: "
            "ask for 1 to 100 to get a part of one GPU, or for a multiple of 100 to get whole GPUs"
        )
    what = f"{size} percent in one piece" if size <= 100 else f"{size} percent as whole GPUs"
    return f"no choice of GPUs on this node has {what} free (free percent: {room})"
