"""Divides a tenth of the interpreter's time between the addresses that ask the agent's HTTP port.

After an answer its address waits, in proportion to the answer's cost and to its share. Addresses that have
asked lately have equal weights. One that asks again at once, though it has to wait, has half as much each
time, down to a sixteenth. So a client that asks at intervals is answered soon beside clients that never stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

COOLDOWN_FACTOR = 9
"""The cooldown of an address that has the whole tenth, in multiples of the answer's cost."""

MAX_COOLDOWN_SECONDS = 20.0
_ANSWER_RESERVATION_SECONDS = 1.0
"""A slower answer, because it is not read, does not delay the address's next one."""

_MIN_WEIGHT = 1 / 16
_EAGER_SECONDS = 0.25
"""A client that asks again sooner than this does not ask at intervals."""

_REMEMBERED_SECONDS = 1.0
"""How long an address counts after its cooldown."""


@dataclass(slots=True)
class _Address:
    """What is remembered of an address that has asked lately."""

    until_seconds: float
    """When its cooldown ends."""

    weight: float = 1.0
    answered_seconds: float = inf
    """When its last answer was complete; infinite while it is answered."""

    eager: bool = False
    """It asked again at once: its weight is halved for the present cooldown."""


class AnswerShares:
    """The cooldowns of addresses. Times are CLOCK_MONOTONIC in seconds; not safe for threads."""

    def __init__(self) -> None:
        self._addresses: dict[str, _Address] = {}

    def begin(self, address: str, now_seconds: float) -> float:
        """Begin an answer. Return 0, or for how many seconds it has to wait before it asks again."""
        known = self._addresses.get(address)
        if known is not None and now_seconds < known.until_seconds:
            if not known.eager and now_seconds < known.answered_seconds + _EAGER_SECONDS:
                known.eager, known.weight = True, max(known.weight / 2, _MIN_WEIGHT)
            return known.until_seconds - now_seconds
        weight = known.weight if known is not None and known.eager else 1.0
        self._addresses[address] = _Address(now_seconds + _ANSWER_RESERVATION_SECONDS, weight)
        return 0.0

    def end(self, address: str, cost_seconds: float, now_seconds: float) -> None:
        """Start the cooldown after an answer that cost so much of the interpreter's time."""
        known = self._addresses.get(address) or _Address(now_seconds)
        weight = known.weight
        others = sum(entry.weight for other, entry in self._addresses.items() if other != address)
        cooldown_seconds = COOLDOWN_FACTOR * cost_seconds * (weight + others) / weight
        until_seconds = now_seconds + min(cooldown_seconds, MAX_COOLDOWN_SECONDS)
        self._addresses[address] = _Address(until_seconds, weight, now_seconds, known.eager)

    def forget_idle(self, now_seconds: float) -> None:
        """Forget addresses whose cooldown ended a while ago."""
        self._addresses = {
            address: known
            for address, known in self._addresses.items()
            if now_seconds < known.until_seconds + _REMEMBERED_SECONDS
        }
