"""The service that a session starts counting from when it comes to a lane, or comes back to it."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.lanes.turns import SessionView
from laneway.node_agent.turns.hold import Hold
from laneway.node_agent.turns.settings import TurnSettings

JUST_NOW_SECONDS = 0.02
"""A session that asks again so soon after its turn was not away."""


def service_on_entry(
    hold: Hold,
    active: Iterable[SessionView],
    members: Iterable[Hold],
    settings: TurnSettings,
    now_seconds: float,
) -> float:
    """Return what counts as the hold's service from now on.

    A newcomer is lifted to the others' level, as the policy has it, and by what it kept others waiting for: changing lanes,
    or having another process go on, pays for nothing. Who was away for short may keep an advantage of ``recall_seconds``
    over them, so that waiting for data does not cost a session its share; who was away for longer keeps none, or it would
    run alone until it had caught up. Nor does anybody owe anything in a lane that nobody has wanted for as long: accounts begin anew with
    a busy period, as virtual time does (start-time fair queueing, Goyal et al., SIGCOMM'96, section 2).

    Args:
        hold: who comes.
        active: what the policy sees of the lane's others that wait or hold the turn, and may.
        members: all of the lane; their accounts are closed where they begin anew.
        settings: of the GPU.
        now_seconds: the time.
    """
    away_seconds = now_seconds - hold.away_since_seconds
    if not hold.newcomer and away_seconds <= JUST_NOW_SECONDS:
        return hold.service_seconds
    others = tuple(active)
    members = tuple(members)
    if not others and not hold.newcomer and _nobody_came(members, now_seconds - settings.recall_seconds):
        for member in members:
            member.service_seconds = member.overstayed_seconds = 0.0
        return 0.0
    lifted_seconds = settings.policy.enter(hold.see(now_seconds), others)
    if hold.newcomer:
        # Each of the others has had about its part of the time since then.
        lifted_seconds += max(0.0, hold.overstayed_seconds - away_seconds / max(1, len(others)))
    elif away_seconds < settings.recall_seconds:
        lifted_seconds -= settings.recall_seconds
    return max(hold.service_seconds, lifted_seconds)


def _nobody_came(members: Iterable[Hold], since_seconds: float) -> bool:
    """Return whether a lane was wanted by none of those who are in it, also of those who may not run."""
    return all(member.view is None and member.away_since_seconds <= since_seconds for member in members)
