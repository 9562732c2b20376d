"""Tells whether a saved container is the one that holds its key now."""

from __future__ import annotations

from laneway.node_agent.recovery.state import AccountState, LeaseState
from laneway.node_agent.turns.lease import Lease


def is_same_container(lease: Lease, state: LeaseState | AccountState) -> bool:
    """Return whether a lease is the saved container's."""
    record = lease.record
    if state.pod_uid and record.pod_uid:
        return state.pod_uid == record.pod_uid
    return (state.namespace, state.pod, state.container) == (record.namespace, record.pod, record.container)
