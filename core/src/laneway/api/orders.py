"""Orders to a node: which pods are to pause, and which are to give their GPU memory back for a while.

They come from several sources (the operator and the command line through ``GPUNode.spec``, a file on the node); a pod that
none of them names runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from laneway.api.schema import Model
from pydantic import Field


class Order(StrEnum):
    """What a pod is to do, the weaker first."""

    PAUSE = "Pause"
    """Stop at the next iteration boundary. Its persistent memory stays on the GPU."""

    OFFLOAD = "Offload"
    """Pause, and then move the persistent memory to the host."""

    @property
    def strength(self) -> int:
        """Return a number that is higher for the order that asks for more."""
        return list(Order).index(self)


class PodOrder(Model):
    """An order to one pod: to all of its containers, on all of the node's GPUs."""

    pod_uid: str = Field(
        description="The pod's metadata.uid.",
        alias="podUID",
        min_length=1,
        max_length=64,
        pattern="^[0-9A-Za-z-]+$",
    )
    order: Order = Field(
        description="Pause: no turns from the next iteration boundary on, memory stays. Offload: then move it to the host."
    )
    reason: str = Field(default="", description="For people: who wants it, and why.", max_length=512)

    def concerns(self, pod_uid: str, namespace: str, pod: str) -> bool:
        """Whether the order is to this pod; ``pod_uid`` is empty while the node could not learn it."""
        return self.pod_uid == pod_uid


def strongest(orders: Iterable[PodOrder]) -> PodOrder | None:
    """Return which of several orders to one pod counts: the one that asks for most, of equals the first."""
    return max(orders, key=lambda order: Order(order.order).strength, default=None)
