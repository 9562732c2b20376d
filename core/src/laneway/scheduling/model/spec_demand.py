"""Converts a TrainingJob's spec to the scheduler's demand."""

from __future__ import annotations

from laneway.api.enforcement import LEVELS, Enforcement
from laneway.api.names import MINIMUM_ENFORCEMENT_ANNOTATION
from laneway.api.pod_requests import pod_requests
from laneway.api.training_job import (
    DEFAULT_MAX_SLOWDOWN_PERCENT,
    GPURequestType,
    PlacementMode,
    Sharing,
    TrainingJobSpec,
)
from laneway.scheduling.model.host_resources import HostResources
from laneway.scheduling.model.snapshot import Demand

_MEMBERS: dict[str, str] = {
    GPURequestType.SHARE: "sharePercent",
    GPURequestType.COUNT: "count",
    GPURequestType.MEMORY: "memory",
}


def demand_of(spec: TrainingJobSpec) -> Demand:
    """Return what the gang needs of the cluster's GPUs, and what its pods request beside them.

    The CRD's rules refuse most of what is refused here, but an object may have been stored before a rule existed.

    Raises:
        ValueError: the spec asks for something impossible; the message says what to write instead.
    """
    gpus = spec.gpus
    members = {"sharePercent": gpus.share_percent, "count": gpus.count, "memory": gpus.memory}
    needed, given = _MEMBERS[gpus.type], [name for name, value in members.items() if value is not None]
    if given != [needed]:
        raise ValueError(
            f"gpus: type {gpus.type} needs {needed} and no other amount (found {', '.join(given) or 'none'})"
        )
    if spec.sharing == Sharing.EXCLUSIVE and gpus.type != GPURequestType.COUNT:
        raise ValueError("sharing: Exclusive needs whole GPUs: set gpus.type to Count, or use sharing: Lanes")
    if (spec.min_workers is None) != (spec.max_workers is None):
        raise ValueError("minWorkers and maxWorkers belong together: set both, or neither")
    fewest, most = spec.min_workers or spec.workers, spec.max_workers or spec.workers
    if not fewest <= spec.workers <= most:
        raise ValueError(
            f"workers is {spec.workers}, and minWorkers to maxWorkers is {fewest} to {most}: write minWorkers <= workers <= maxWorkers"
        )
    return Demand(
        workers=spec.workers,
        min_workers=spec.min_workers,
        max_workers=spec.max_workers,
        gpus_per_worker=spec.gpus_per_worker,
        share_percent=100 if gpus.share_percent is None else gpus.share_percent,
        memory_bytes=gpus.memory_bytes,
        models=frozenset(gpus.models),
        minimum_enforcement=_minimum_enforcement(spec.demanded_enforcement),
        exclusive=spec.sharing == Sharing.EXCLUSIVE,
        max_slowdown_ratio=_max_slowdown_ratio(spec),
        mode=PlacementMode(spec.placement),
        requests=HostResources.of(pod_requests(spec.template["spec"])),
    )


def _max_slowdown_ratio(spec: TrainingJobSpec) -> float:
    percent = spec.max_slowdown_percent
    return (DEFAULT_MAX_SLOWDOWN_PERCENT if percent is None else percent) / 100


def _minimum_enforcement(demanded: str) -> Enforcement:
    known = [level.value for level in LEVELS if level is not Enforcement.NONE]
    if demanded and demanded not in known:
        raise ValueError(
            f"template.metadata.annotations: {MINIMUM_ENFORCEMENT_ANNOTATION} is {demanded!r}: write one of "
            f"{', '.join(known)}, or write minimumEnforcement in the spec"
        )
    return Enforcement(demanded or Enforcement.NONE)
