"""The service that a session starts counting from when it comes to a lane, or comes back to it."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.lanes.turns import SessionView
from laneway.node_agent.turns.hold import Hold
from laneway.node_agent.turns.settings import TurnSettings

JUST_NOW_SECONDS = 0.02
"""A session that asks again so soon after its turn was not away."""


def service_on_entry(
    hold: Hold, active: Iterable[SessionView], settings: TurnSettings, now_seconds: float
) -> float:
    """Return what counts as the hold's service from now on.

    A newcomer is lifted to the others' level, as the policy has it, and by what it kept others waiting for: changing lanes,
    or having another process go on, pays for nothing. Who was away for short may keep an advantage of ``recall_seconds``
    over them, so that waiting for data does not cost a session its share; who was away for longer keeps none, or it would
    run alone until it had caught up.
    """
    away_seconds = now_seconds - hold.away_since_seconds
    if not hold.newcomer and away_seconds <= JUST_NOW_SECONDS:
        return hold.service_seconds
    others = tuple(active)
    lifted_seconds = settings.policy.enter(hold.see(now_seconds), others)
    if hold.newcomer:
        # Each of the others has had about its part of the time since then.
        lifted_seconds += max(0.0, hold.overstayed_seconds - away_seconds / max(1, len(others)))
    elif away_seconds < settings.recall_seconds:
        lifted_seconds -= settings.recall_seconds
    return max(hold.service_seconds, lifted_seconds)
