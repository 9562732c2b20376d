"""What came of earlier writes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from laneway.operator.state.records.waiting_pod import WaitingPod


@dataclass(frozen=True, slots=True)
class WriteHistory:
    """What came of earlier writes. An operator that has just started goes on without it."""

    refusals: Mapping[tuple[str, int], str]
    """By job uid and attempt: why the API server refused one of the attempt's objects."""

    written_seconds: Mapping[str, float]
    """By job uid: when its status was last written."""

    template_refusals: Mapping[tuple[str, int], str] = field(default_factory=lambda: MappingProxyType({}))
    """By job uid and generation: why the API server would refuse the pods of its template."""

    watched_since_seconds: float = math.inf
    """Since when this replica has watched the cluster without a break; infinite: it has only begun."""

    busy_profiles: Collection[str] = ()
    """Keys of TrainingProfiles that are being written, or rest after a failure."""

    resizing: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """By uid of a pod whose CPUs are being changed, or that rests after a failure: what its trainer may have by now, in thousandths."""

    resize_bounds: Mapping[str, tuple[float, float]] = field(default_factory=lambda: MappingProxyType({}))
    """By uid of a pod: the CPUs of its trainer between which the API server has refused none; in thousandths."""

    resizes_unavailable: str = ""
    """Why the API server changes no pod's CPUs, as a sentence; empty where it does."""

    waiting_pods: Sequence[WaitingPod] = ()
    """Other pods, for which kube-scheduler finds no CPUs; one of each kind."""

    unread: Collection[str] = ()
    """Uids of the jobs in flight of which a write has failed, and which are read again until that is known."""
