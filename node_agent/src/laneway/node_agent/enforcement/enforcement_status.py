"""What the watchdog found about a container, recorded in its lease on the loop's thread."""

from __future__ import annotations

from dataclasses import dataclass

from laneway.api.enforcement import Enforcement
from laneway.node_agent.containers.record_file import is_same_container
from laneway.node_agent.enforcement.violation import Claim
from laneway.node_agent.turns.event_recorder import EventRecorder
from laneway.node_agent.turns.gpu_turns import GPUTurns


@dataclass(frozen=True, slots=True)
class EnforcementStatus:
    """The enforcement status of one container."""

    enforcement: Enforcement = Enforcement.NONE
    """The level that holds without its client's cooperation."""

    message: str = ""
    """The current warning, as a clause; empty if there is none."""

    evicted: str = ""
    """Why its processes were stopped, as one CamelCase word; empty if they were not, or others replaced
    them."""

    eviction_message: str = ""
    """Why its processes were last stopped, as a clause."""

    unscheduled_seconds: float = 0.0
    """For how long it computed without a turn while others of its lane wanted one, as sampled."""


def record_enforcement_status(
    turns: GPUTurns, claim: Claim, status: EnforcementStatus, recorder: EventRecorder
) -> None:
    """Record a container's status in its lease."""
    lease = turns.leases.get(claim.record.key)
    if lease is None or not is_same_container(lease.record, claim.record):
        return  # the key has a new owner or none
    lease.watchdog_enforcement, lease.watchdog_message = status.enforcement, status.message
    lease.unscheduled_seconds = status.unscheduled_seconds
    if status.evicted and not lease.evicted:
        turns.evictions[lease.record.namespace, status.evicted] += 1
    lease.evicted, before, lease.eviction_message = (
        status.evicted,
        lease.eviction_message,
        status.eviction_message,
    )
    if lease.evicted and lease.eviction_message != before:
        recorder.record_event(lease, lease.evicted, lease.eviction_message)
    recorder.changed()
