"""Turn policies: which of a lane's waiting sessions runs next. One file each, chosen by name.

``turn_policy("fair", starvation_seconds=60)`` returns one. The turn scheduler calls ``enter`` when a session joins or
comes back, and ``choose`` when the turn is free. To ask whether the holder should continue after its quantum, pass it among the waiting sessions: if it is chosen, it keeps the turn.
"""

from laneway.lanes.turns.fair import Fair
from laneway.lanes.turns.las import LeastAttained
from laneway.lanes.turns.pack import Pack
from laneway.lanes.turns.policy import SessionView, TurnPolicy
from laneway.lanes.turns.registry import TURN_POLICIES, turn_policy
from laneway.lanes.turns.srtf import ShortestRemaining
from laneway.lanes.turns.starvation import StarvationBound

__all__ = [
    "TURN_POLICIES",
    "Fair",
    "LeastAttained",
    "Pack",
    "SessionView",
    "ShortestRemaining",
    "StarvationBound",
    "TurnPolicy",
    "turn_policy",
]
