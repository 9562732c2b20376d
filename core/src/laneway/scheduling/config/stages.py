"""The policies of all stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from laneway.scheduling.admission.policy import AdmissionPolicy
from laneway.scheduling.order.policy import OrderPolicy
from laneway.scheduling.placement.policy import PlacementPolicy
from laneway.scheduling.preemption.policy import PreemptionPolicy

if TYPE_CHECKING:
    from laneway.scheduling.allocation.policy import AllocationPolicy
    from laneway.scheduling.elastic.policy import ElasticPolicy


@dataclass(frozen=True, slots=True)
class Policies:
    """One policy for each stage, in the order in which a decision is made."""

    admission: tuple[AdmissionPolicy, ...]
    """All of them must admit a job."""

    order: OrderPolicy
    placement: PlacementPolicy
    preemption: PreemptionPolicy
    elastic: ElasticPolicy | None = None
    """How many workers elastic jobs get; None: as many as they request."""

    allocation: AllocationPolicy | None = None
    """How CPUs and memory are divided; None: as the pods request them."""

    spare_cpu_percent: int = 0
    """Percent of each node's CPUs that no worker gets beyond its request."""
