"""Orders to a node: which pods pause, and which also move their GPU memory to the host.

Orders come from several sources: the operator and the command line through ``GPUNode.spec``, and a file on the node. A pod
without an order runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from laneway.api.records import explain
from laneway.api.schema import Spec
from pydantic import Field, ValidationError


class Order(StrEnum):
    """What a pod does; the weaker order first."""

    PAUSE = "Pause"
    """Stop at the next iteration boundary. Its persistent memory stays on the GPU."""

    OFFLOAD = "Offload"
    """Pause, and then move the persistent memory to the host."""

    @property
    def strength(self) -> int:
        """Return a number that is higher for the stronger order."""
        return list(Order).index(self)


class PodOrder(Spec):
    """Order to one pod: to all of its containers, on all GPUs of the node."""

    pod_uid: str = Field(
        description="UID of the pod.",
        alias="podUID",
        min_length=1,
        max_length=64,
        pattern="^[0-9A-Za-z-]+$",
    )
    order: Order = Field(
        description="Pause: the pod gets no turns after its next iteration boundary; its memory stays. Offload: its memory then moves to the host."
    )
    reason: str = Field(default="", description="Who gave the order and why, for people.", max_length=512)

    def concerns(self, pod_uid: str, namespace: str, pod: str) -> bool:
        """Return whether the order is for this pod; ``pod_uid`` is empty while the node does not know it."""
        return self.pod_uid == pod_uid


def understood(listed: Iterable[Any]) -> tuple[tuple[PodOrder, ...], tuple[tuple[Any, str], ...]]:
    """Return the orders of a spec that can be read, and the others with what is wrong: a newer writer may know other orders."""
    orders, others = [], []
    for each in listed:
        try:
            orders.append(PodOrder.model_validate(each))
        except ValidationError as error:
            others.append((each, explain(error, "spec.orders")))
    return tuple(orders), tuple(others)


def strongest(orders: Iterable[PodOrder]) -> PodOrder | None:
    """Return the strongest of several orders to one pod; of equals the first."""
    return max(orders, key=lambda order: Order(order.order).strength, default=None)
