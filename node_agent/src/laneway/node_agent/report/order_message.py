"""The message about a container's order: pure. It changes only when something happens."""

from __future__ import annotations

from laneway.api.orders import Order
from laneway.api.quantity import format_bytes
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.order_executor import cannot_offload


def order_message(lease: Lease) -> str:
    """Return how far a container's order has been carried out, as a clause; empty if there is nothing to
    report."""
    if lease.order is None and not lease.blocked:
        return ""
    parts = [_state(lease)]
    parts += [
        f"process {session.pid} has not answered {session.order_state.unanswered} in time"
        for session in lease.connected
        if session.order_state.timeout_reported and session.order_state.unanswered is not None
    ]
    if lease.order is None:
        parts += [
            f"process {session.pid} could not restore: {session.order_state.refusal}"
            for session in lease.sessions
            if session.order_state.refusal
        ]
    return ", ".join(parts)


def _state(lease: Lease) -> str:
    order = lease.order
    moved = format_bytes(lease.offloaded_bytes)
    if order is None:
        if any(session.order_state.restore_requested for session in lease.sessions):
            return f"restoring its memory: {moved} are on the host"
        return f"waits for GPU memory to restore {moved} from the host"
    why = f" ({order.reason})" if order.reason else ""
    if lease.sessions and all(session.order_state.offloaded for session in lease.sessions):
        held = lease.held_bytes
        left = f", {format_bytes(held)} remain on the GPU" if held else ""
        return f"offloaded by order{why}: {moved} are on the host{left}"
    if not all(session.order_state.paused for session in lease.connected):
        return f"is ordered to {'pause' if order.order == Order.PAUSE else 'offload'}{why}"
    if order.order == Order.PAUSE:
        return f"paused by order{why}"
    obstacles = ", ".join(filter(None, map(cannot_offload, lease.sessions)))
    doing = (
        f"it cannot be offloaded: {obstacles}" if obstacles else "it is about to move its memory to the host"
    )
    return f"paused by order{why}, {doing}"
