"""Turn policies: who of a lane's waiting sessions runs its next iterations. One file each, chosen by name.

``turn_policy("fair", starvation_seconds=60)`` returns one. The turn scheduler calls ``enter`` when a session joins or
comes back, and ``choose`` when the turn is free. To ask whether the holder of a turn should go on when its quantum is
over, pass it among the waiting: if it is chosen it keeps the turn.
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
