"""Turn policies by the name that a configuration gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from laneway.lanes.turns.fair import Fair
from laneway.lanes.turns.las import LeastAttained
from laneway.lanes.turns.pack import Pack
from laneway.lanes.turns.policy import TurnPolicy
from laneway.lanes.turns.srtf import ShortestRemaining
from laneway.lanes.turns.starvation import StarvationBound

TURN_POLICIES: Mapping[str, Callable[..., TurnPolicy]] = MappingProxyType(
    {"fair": Fair, "las": LeastAttained, "pack": Pack, "srtf": ShortestRemaining}
)
"""By name; each takes its parameters as keywords."""


def turn_policy(name: str, *, starvation_seconds: float, **parameters: object) -> TurnPolicy:
    """Return the policy of that name, with a bound on waiting around it.

    Args:
        name: one of :data:`TURN_POLICIES`.
        starvation_seconds: a session that has waited this long is next.
        parameters: the policy's own.

    Raises:
        ValueError: there is no policy of that name, or a parameter is wrong.
    """
    if name not in TURN_POLICIES:
        raise ValueError(f"there is no turn policy {name!r}; write one of {', '.join(sorted(TURN_POLICIES))}")
    return StarvationBound(TURN_POLICIES[name](**parameters), starvation_seconds)
