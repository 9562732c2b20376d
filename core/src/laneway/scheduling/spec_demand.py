"""What a TrainingJob's spec asks for, as the scheduler counts it."""

from __future__ import annotations

from laneway.api.enforcement import LEVELS, Enforcement
from laneway.api.names import MINIMUM_ENFORCEMENT_ANNOTATION
from laneway.api.training_job import PlacementMode, Sharing, TrainingJobSpec
from laneway.scheduling.snapshot import Demand


def demand_of(spec: TrainingJobSpec) -> Demand:
    """Return what the gang needs of the cluster's GPUs.

    The CRD's rules refuse most of what is refused here; an object that was stored before a rule existed passes them by.

    Raises:
        ValueError: the spec asks for something that cannot be; says what to write instead.
    """
    gpus = spec.gpus
    given = [value for value in (gpus.per_worker, gpus.share, gpus.memory) if value is not None]
    if len(given) != 1:
        raise ValueError(
            f"gpus has {len(given)} of perWorker, share and memory: write exactly one of perWorker (whole GPUs for each "
            "worker), share (percent of one GPU) or memory (such as 8Gi)"
        )
    if spec.sharing == Sharing.EXCLUSIVE and gpus.per_worker is None:
        raise ValueError("sharing: Exclusive holds whole GPUs: write gpus.perWorker, or sharing: Lanes")
    return Demand(
        workers=spec.workers,
        gpus_per_worker=1 if gpus.per_worker is None else gpus.per_worker,
        share_percent=100 if gpus.share is None else gpus.share,
        memory_bytes=gpus.memory_bytes,
        models=frozenset(gpus.models),
        minimum_enforcement=_minimum_enforcement(spec.demanded_enforcement),
        exclusive=spec.sharing == Sharing.EXCLUSIVE,
        mode=PlacementMode(spec.placement),
    )


def _minimum_enforcement(demanded: str) -> Enforcement:
    known = [level.value for level in LEVELS if level is not Enforcement.NONE]
    if demanded and demanded not in known:
        raise ValueError(
            f"template.metadata.annotations: {MINIMUM_ENFORCEMENT_ANNOTATION} is {demanded!r}: write one of "
            f"{', '.join(known)}, or write minimumEnforcement in the spec"
        )
    return Enforcement(demanded or Enforcement.NONE)
