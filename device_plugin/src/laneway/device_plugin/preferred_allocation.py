"""Chooses the ids for a container: a pure function of the free ids and the operator's choices.

The GPU that the operator chose comes first. Without a choice, a fraction goes to the fullest GPU that still
holds it within its 100 percent (best fit, so that large parts stay free), else to the emptiest, and several
GPUs are chosen by NVLink. Capacity reserved for a pod on its way is used only if nothing else is free.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from laneway.api.device_ids import gpu_of
from laneway.api.inventory import InventoryGPU
from laneway.device_plugin.gpu_layouts import WHOLE_PERCENT, GPULayout, layouts_for, split_error
from laneway.device_plugin.topology import closest_gpus


@dataclass(frozen=True)
class PreferredRequest:
    """The kubelet's request: ``size`` ids out of ``available``, including all of ``must_include``."""

    size: int
    available: tuple[str, ...]
    must_include: tuple[str, ...] = ()


@dataclass(frozen=True)
class OperatorChoice:
    """The GPUs that the operator chose for a container of the requested size."""

    pod: str
    gpus: tuple[str, ...]


@dataclass(frozen=True)
class PreferredIds:
    """The chosen ids, and why."""

    ids: tuple[str, ...]
    reason: str


class NoFitError(Exception):
    """No GPUs of the node fit the request; the text says what is free and what may be requested."""


def preferred_ids(
    request: PreferredRequest,
    gpus: Sequence[InventoryGPU],
    choices: Sequence[OperatorChoice] = (),
    reserved: Mapping[str, int] | None = None,
) -> PreferredIds:
    """Choose the ids for a container.

    Args:
        request: the kubelet's request.
        gpus: the node's GPUs.
        choices: the operator's choices for the containers that this may be, the likeliest first.
        reserved: percent of each GPU, by uuid, that the operator chose for other pods that hold no ids yet.

    Raises:
        NoFitError: no allowed choice exists.
    """
    free = _FreeIds.of(request, gpus)
    for choice in choices:
        layout = _choice_layout(choice, request.size, gpus)
        if layout and free.fits(layout, choice.gpus):
            return PreferredIds(free.take(layout, choice.gpus), f"chosen by the operator for {choice.pod}")
    for excluded, reason in (
        (reserved or {}, "best fit"),
        ({}, "best fit, on capacity reserved for another pod"),
    ):
        for layout in _layouts(request.size, gpus):
            for candidates in free.candidates(layout, excluded):
                chosen = (
                    closest_gpus(candidates, layout.gpus, free.required)
                    if len(candidates) >= layout.gpus
                    else ()
                )
                if chosen and free.fits(layout, chosen):
                    return PreferredIds(free.take(layout, chosen), reason)
    raise NoFitError(_no_fit_message(request.size, gpus, free))


def _choice_layout(choice: OperatorChoice, size: int, gpus: Sequence[InventoryGPU]) -> GPULayout | None:
    """Return a choice as a layout; None if it names unknown GPUs or would split a fraction of a GPU."""
    uuids = set(choice.gpus)
    if not uuids or size % len(uuids) or not uuids <= {gpu.uuid for gpu in gpus}:
        return None
    layout = GPULayout(len(uuids), size // len(uuids))
    return None if split_error(dict.fromkeys(uuids, layout.percent), gpus) else layout


def _layouts(size: int, gpus: Sequence[InventoryGPU]) -> list[GPULayout]:
    """Return the layouts of the size for each number of percent that the node's GPUs offer."""
    offers = sorted({gpu.allocatable_percent for gpu in gpus}, reverse=True)
    return list(dict.fromkeys(layout for offer in offers for layout in layouts_for(size, offer)))


@dataclass(frozen=True)
class _FreeIds:
    """The offered ids by GPU, in the order in which they are taken: required ones first."""

    ids: Mapping[str, Sequence[str]]
    required: Mapping[str, int]
    gpus: Mapping[str, InventoryGPU] = field(repr=False)

    @classmethod
    def of(cls, request: PreferredRequest, gpus: Sequence[InventoryGPU]) -> _FreeIds:
        known = {gpu.uuid: gpu for gpu in gpus}
        required: dict[str, int] = {}
        ids: dict[str, list[str]] = {}
        for identifier in dict.fromkeys((*request.must_include, *sorted(request.available, key=_slot_order))):
            uuid = gpu_of(identifier)
            is_required = identifier in request.must_include
            if uuid not in known or not (is_required or known[uuid].healthy):
                continue
            ids.setdefault(uuid, []).append(identifier)
            if is_required:
                required[uuid] = required.get(uuid, 0) + 1
        return cls(ids, required, known)

    def fits(self, layout: GPULayout, uuids: Collection[str]) -> bool:
        """Return whether these GPUs have enough free ids and include all required ids."""
        return (
            all(len(self.ids.get(uuid, ())) >= layout.percent for uuid in uuids)
            and set(self.required) <= set(uuids)
            and all(count <= layout.percent for count in self.required.values())
        )

    def take(self, layout: GPULayout, uuids: Collection[str]) -> tuple[str, ...]:
        return tuple(
            identifier for uuid in dict.fromkeys(uuids) for identifier in self.ids[uuid][: layout.percent]
        )

    def candidates(
        self, layout: GPULayout, reserved: Mapping[str, int]
    ) -> tuple[list[InventoryGPU], list[InventoryGPU]]:
        """Return the GPUs with capacity beyond what is reserved: those whose shares stay within 100 percent, the fullest first; then all,
        the emptiest first, as their holders are to share time."""
        free = {uuid: len(ids) - reserved.get(uuid, 0) for uuid, ids in self.ids.items()}
        fitting = [self.gpus[uuid] for uuid in free if free[uuid] >= layout.percent or uuid in self.required]
        fitting.sort(key=lambda gpu: (free[gpu.uuid], gpu.index))

        def is_unshared(gpu: InventoryGPU) -> bool:
            return gpu.allocatable_percent - free[gpu.uuid] + layout.percent <= WHOLE_PERCENT

        unshared = [gpu for gpu in fitting if is_unshared(gpu) or gpu.allocatable_percent == layout.percent]
        return unshared, sorted(fitting, key=lambda gpu: (-free[gpu.uuid], gpu.index))


def _slot_order(identifier: str) -> tuple[int, str]:
    """Sort the ids of one GPU by slot: they differ only in a number at their end."""
    return len(identifier), identifier


def _no_fit_message(size: int, gpus: Sequence[InventoryGPU], free: _FreeIds) -> str:
    percents = ", ".join(f"{gpu.uuid} {len(free.ids.get(gpu.uuid, ()))}" for gpu in gpus) or "no GPU"
    if not _layouts(size, gpus):
        return (
            f"{size} percent is more than one GPU and not a number of whole GPUs: "
            "request 1 to 100 for a part of one GPU, or a multiple of 100 for whole GPUs"
        )
    what = f"{size} percent in one piece" if size <= 100 else f"{size} percent as whole GPUs"
    return f"no choice of GPUs on this node has {what} free (free percent: {percents})"
