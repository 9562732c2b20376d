"""Classes of equal GPUs: which of them suit a demand, and the share that a worker needs there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from laneway.api import quota
from laneway.api.enforcement import Enforcement, reaches
from laneway.api.model_selector import selects
from laneway.lanes import LaneRules
from laneway.scheduling.model.snapshot import GPU, Demand


@dataclass(frozen=True, order=True, slots=True)
class GPUClass:
    """GPUs that are equivalent for a worker: a demand needs the same share of each."""

    allocatable_bytes: int
    model: str
    allocatable_percent: int
    lane_rules: LaneRules
    active_percent: int
    """Shares that may take turns at the same time."""

    enforcement: Enforcement = Enforcement.COOPERATIVE
    """The strongest enforcement level."""

    _hash: int = field(init=False, repr=False, compare=False)
    """Computed once, because many look-ups are by class."""

    def __post_init__(self) -> None:
        parts = (
            self.allocatable_bytes,
            self.model,
            self.allocatable_percent,
            self.active_percent,
            self.enforcement,
        )
        object.__setattr__(self, "_hash", hash((parts, self.lane_rules)))

    def __hash__(self) -> int:
        return self._hash


def class_of(gpu: GPU) -> GPUClass:
    """Return the class that a GPU belongs to."""
    active_percent = gpu.allocatable_percent if gpu.active_percent is None else gpu.active_percent
    return GPUClass(
        gpu.allocatable_bytes,
        gpu.model,
        gpu.allocatable_percent,
        gpu.lane_rules,
        active_percent,
        gpu.enforcement,
    )


def accepts(demand: Demand, gpu_class: GPUClass) -> bool:
    """Whether the demand allows GPUs of this class, regardless of their size."""
    return accepts_model(demand, gpu_class.model) and reaches(
        gpu_class.enforcement, demand.minimum_enforcement
    )


def accepts_model(demand: Demand, model: str) -> bool:
    """Whether the demand allows GPUs of this model."""
    return selects(demand.models, model)


def share_needed(demand: Demand, gpu_class: GPUClass) -> int | None:
    """Return the percent of a GPU of this class that a worker needs; None where such a GPU is too small.

    A demand for memory becomes the smallest share with enough quota; an exclusive demand, all shares that may take turns.
    """
    if demand.exclusive:
        return gpu_class.active_percent
    if demand.memory_bytes is None:
        share_percent = demand.share_percent
    else:
        share_percent = quota.percent_for(demand.memory_bytes, gpu_class.allocatable_bytes)
    return share_percent if share_percent <= min(100, gpu_class.active_percent) else None


def lanes_matter(demand: Demand, gpu_class: GPUClass) -> bool:
    """Whether free percent alone does not decide that a worker fits: memory is overcommitted, or lanes are limited."""
    limited = gpu_class.lane_rules.max_lanes > 0 and demand.spans_gpus
    return gpu_class.allocatable_percent > 100 or limited


def suitable(demand: Demand, classes: Iterable[GPUClass]) -> tuple[tuple[GPUClass, int], ...]:
    """Return the classes that suit a demand, each with the share needed; GPUs with the least memory first."""
    return tuple(
        (gpu_class, share_percent)
        for gpu_class in sorted(classes)
        if accepts(demand, gpu_class) and (share_percent := share_needed(demand, gpu_class)) is not None
    )
