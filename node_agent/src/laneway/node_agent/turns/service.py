"""Compute the service that a lease starts counting from when it enters a lane or returns to it."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.lanes.turns import SessionView
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.settings import TurnSettings

_REENTRY_SECONDS = 0.02
"""A session that requests again this soon after its turn was not away."""


def reenters(lease: Lease, now_seconds: float) -> bool:
    """Return whether a lease enters its lane, or returns to it after it was away."""
    return lease.newcomer or now_seconds - lease.away_since_seconds > _REENTRY_SECONDS


def service_on_entry(
    lease: Lease,
    active: Iterable[SessionView],
    members: Iterable[Lease],
    settings: TurnSettings,
    now_seconds: float,
) -> float:
    """Return what counts as the service of a lease that :func:`reenters` its lane.

    A newcomer is raised to the level of the others, as the policy defines it, plus the time that its turns
    kept others waiting and that those have not had since then. So changing lanes or continuing in another process gains nothing. A lease that
    was away briefly may keep an advantage of ``recall_seconds`` over the others, so that waiting for data
    does not cost it its share. A lease that was away longer keeps no advantage, or it would run alone until
    it had caught up.

    If no lease wanted a lane for ``recall_seconds``, its accounts restart at zero with the next busy period,
    as virtual time does in start-time fair queueing (Goyal et al., SIGCOMM'96, section 2).

    Args:
        lease: the lease that enters.
        active: the policy's views of the lane's other leases that wait or hold the turn.
        members: all leases of the lane; their accounts are reset when they restart.
        settings: the GPU's settings.
        now_seconds: the current time.
    """
    away_seconds = now_seconds - lease.away_since_seconds
    others = tuple(active)
    members = tuple(members)
    if not others and not lease.newcomer and _unused_since(members, now_seconds - settings.recall_seconds):
        for member in members:
            member.service_seconds = member.kept_waiting_seconds = 0.0
        return 0.0
    lifted_seconds = settings.policy.enter(lease.to_view(now_seconds), others)
    if lease.newcomer:
        # Each of the others has received about its part of the time since then.
        lifted_seconds += max(0.0, lease.kept_waiting_seconds - away_seconds / max(1, len(others)))
    elif away_seconds < settings.recall_seconds:
        lifted_seconds -= settings.recall_seconds
    return max(lease.service_seconds, lifted_seconds)


def _unused_since(members: Iterable[Lease], since_seconds: float) -> bool:
    """Return whether no lease of a lane wanted it since a time; leases that may not run count too."""
    return all(member.view is None and member.away_since_seconds <= since_seconds for member in members)
