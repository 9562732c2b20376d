"""A GPUNode: the node's own word about its GPUs and who holds them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from laneway.api.conditions import is_true
from laneway.api.gpu_node import GPUNodeStatus, GPUStatus, SessionState, SessionStatus
from laneway.api.names import OPERATOR_FIELD_MANAGER
from laneway.api.orders import PodOrder, understood
from laneway.api.pod_requests import amounts
from laneway.api.records import explain
from laneway.api.rfc3339 import parse_time
from laneway.operator.state.records.node_record import OTHER_PLUGIN
from pydantic import ValidationError

READY = "Ready"
_DOUBLY_OFFERED = "DoublyOffered"

_DECISIVE_STATES = (SessionState.ENDED, SessionState.PAUSED, SessionState.OFFLOADED)
"""Which of the sessions in a lane has the turn is the node's own affair."""


@dataclass(frozen=True, slots=True)
class GPUNodeRecord:
    """One GPUNode as the cluster has it."""

    name: str
    gpus: tuple[GPUStatus, ...]
    ready: bool
    problem: str
    """What is wrong with the object, as a sentence; it then counts as having no GPUs. Empty where nothing is."""

    decisive: tuple[object, ...]
    """What of it can change a decision. Figures that only grow (turns, iterations) are left out, so that a node's regular
    report does not wake the engine."""

    resource_version: str = field(default="", compare=False)
    """The first resource version at which the object matched this record."""

    observed_seconds: float = field(default=0.0, compare=False)
    """The time of the agent's last report; 0 where it does not say."""

    own_orders: tuple[PodOrder, ...] = ()
    """What the operator has ordered, by its field manager."""

    other_pods: Mapping[str, int] | None = None
    """What pods on the node request that are no worker of a job; CPUs in thousandths. None where the node does not know."""

    others_orders: frozenset[str] = frozenset()
    """Uids of pods to which somebody else gave an order."""

    doubly_offered: bool = False
    """Another device plugin offers GPUs of the node, or pods still have GPUs of one."""

    @property
    def refusal(self) -> str:
        """Why no new worker goes there, as a clause; empty where one may."""
        if self.problem:
            return f"its GPUNode cannot be read: {self.problem}"
        if not self.ready:
            return "its node agent is not ready"
        return OTHER_PLUGIN if self.doubly_offered else ""


def parse_gpu_node(raw: dict[str, Any]) -> GPUNodeRecord:
    """Read a GPUNode. A wrong one is noted in ``problem``, never raised: one bad object stops nothing."""
    name = raw["metadata"]["name"]
    try:
        status = GPUNodeStatus.model_validate(raw.get("status") or {})
        problem = _twice(status.gpus)
    except ValidationError as error:
        status, problem = GPUNodeStatus(), explain(error, "status")
    gpus = () if problem else status.gpus
    ready = is_true(status.conditions, READY)
    doubly_offered = is_true(status.conditions, _DOUBLY_OFFERED)
    own_orders, others_orders = _orders(raw)
    other_pods = _amounts(status.other_pods_requests)
    decisive = (
        ready,
        doubly_offered,
        other_pods,
        problem,
        own_orders,
        others_orders,
        *((_decisive_gpu(gpu), *map(_decisive_session, gpu.sessions)) for gpu in gpus),
    )
    return GPUNodeRecord(
        name=name,
        gpus=gpus,
        ready=ready,
        problem=problem,
        decisive=decisive,
        resource_version=raw["metadata"].get("resourceVersion", ""),
        observed_seconds=0.0 if status.observed_at is None else parse_time(status.observed_at),
        own_orders=own_orders,
        other_pods=other_pods,
        others_orders=others_orders,
        doubly_offered=doubly_offered,
    )


def _amounts(quantities: Mapping[str, str] | None) -> Mapping[str, int] | None:
    try:
        return None if quantities is None else amounts(quantities)
    except ValueError:
        return None  # kube-scheduler still has the last word


def _orders(raw: dict[str, Any]) -> tuple[tuple[PodOrder, ...], frozenset[str]]:
    """Return the operator's orders, and the pods that others gave one to; ``managedFields`` tells them apart."""
    listed = (raw.get("spec") or {}).get("orders") or ()
    if not listed:
        return (), frozenset()
    own: set[str] = set()
    others: set[str] = set()
    for entry in raw["metadata"].get("managedFields") or ():
        mine = entry.get("manager") == OPERATOR_FIELD_MANAGER and entry.get("operation") == "Apply"
        fields = ((entry.get("fieldsV1") or {}).get("f:spec") or {}).get("f:orders") or {}
        (own if mine else others).update(
            json.loads(field[2:])["podUID"] for field in fields if field.startswith("k:")
        )
    return tuple(_own_order(each) for each in listed if each["podUID"] in own), frozenset(others)


def _own_order(raw: dict[str, Any]) -> PodOrder:
    """Return an order as it is written, so that it can be withdrawn, even if only a newer operator knows its value."""
    orders, _ = understood([raw])
    return orders[0] if orders else PodOrder.model_construct(pod_uid=raw["podUID"], order=raw.get("order"))


def _twice(gpus: tuple[GPUStatus, ...]) -> str:
    uuids = [gpu.uuid for gpu in gpus]
    twice = sorted({uuid for uuid in uuids if uuids.count(uuid) > 1})
    return f"status.gpus: it lists a GPU twice: {', '.join(twice)}" if twice else ""


def _decisive_gpu(gpu: GPUStatus) -> tuple[object, ...]:
    return (
        gpu.uuid,
        gpu.index,
        gpu.model,
        gpu.memory_bytes,
        gpu.allocatable_bytes,
        gpu.allocatable_percent,
        gpu.healthy,
        gpu.unhealthy_since,
        gpu.enforcement,
        gpu.numa_node,
        gpu.nvlink_peers,
        gpu.move_milliseconds_per_gib,
    )


def awaits_memory(session: SessionStatus) -> bool:
    """Return whether the session's memory is on the host although no order keeps it there any more."""
    return session.state == SessionState.WAITING and session.offloaded_bytes > 0


def awaits_lane(session: SessionStatus) -> bool:
    """Return whether the session's client is connected and has no lane on the GPU, nor memory on the host that waits for one."""
    return session.state == SessionState.WAITING and session.lane is None and not awaits_memory(session)


def _decisive_session(session: SessionStatus) -> tuple[object, ...]:
    return (
        session.key,
        session.pod_uid,
        session.pod,
        session.share_percent,
        session.state if session.state in _DECISIVE_STATES else "",
        awaits_lane(session),
        awaits_memory(session),
        session.profiled,
        session.persistent_bytes,
        session.ephemeral_bytes,
        session.message,
        session.evicted,
    )
