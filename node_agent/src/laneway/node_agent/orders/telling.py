"""What people are told of a container's orders: pure. The text does not change while nothing happens."""

from __future__ import annotations

from laneway.api.orders import Order
from laneway.api.quantity import format_bytes
from laneway.node_agent.orders.following import cannot_offload
from laneway.node_agent.turns.hold import Hold


def order_text(hold: Hold) -> str:
    """Return how far a container has come with its order, as a sentence; empty where it has none and needs none."""
    if hold.order is None and not hold.held_back:
        return ""
    parts = [_state(hold)]
    parts += [
        f"process {session.pid} has not answered {session.standing.owes} in time"
        for session in hold.connected
        if session.standing.lateness_told and session.standing.owes is not None
    ]
    if hold.order is None:
        parts += [
            f"process {session.pid} could not restore: {session.standing.refusal}"
            for session in hold.sessions
            if session.standing.refusal
        ]
    return ", ".join(parts)


def _state(hold: Hold) -> str:
    order = hold.order
    moved = format_bytes(hold.offloaded_bytes)
    if order is None:
        if any(session.standing.restore_asked for session in hold.sessions):
            return f"its memory is being restored: {moved} are on the host"
        return f"it runs again once memory is free for the {moved} that it has on the host"
    why = f" ({order.reason})" if order.reason else ""
    if hold.sessions and all(session.standing.offloaded for session in hold.sessions):
        held = hold.held_bytes
        left = f", {format_bytes(held)} stay on the GPU" if held else ""
        return f"offloaded by order{why}: {moved} are on the host{left}"
    if not all(session.standing.paused for session in hold.connected):
        return f"is ordered to {'pause' if order.order == Order.PAUSE else 'offload'}{why}"
    if order.order == Order.PAUSE:
        return f"paused by order{why}"
    obstacles = ", ".join(filter(None, map(cannot_offload, hold.sessions)))
    doing = (
        f"it cannot be offloaded: {obstacles}" if obstacles else "it is about to move its memory to the host"
    )
    return f"paused by order{why}, {doing}"
