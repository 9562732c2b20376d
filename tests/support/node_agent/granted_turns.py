"""Whether a session gets turns only when it is due beside another one of the same weight, by the agent's record of both.

Deficit round robin grants a lease its next turn once the other one is less than a quantum behind it. So whatever a turn lasts, the
session that kept it waits until the other one has made up for all of it but a quantum. There is one exception. A holder that
is between iterations for a while leaves the gap, although it is behind. Then others fill it, but not the next gap, before the
wait for that is made up for (:mod:`laneway.node_agent.turns.gap_wait`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Turn = dict[str, Any]
"""As `/turns` shows it."""

_PAUSE_SECONDS = 0.001
"""Half of the time after which the agent takes a holder for idle: the test's clock and the agent's may differ."""

_REENTRY_SECONDS = 0.02
_RECALL_SECONDS = 1.0
"""A session that was away for longer than the first time is at most this much behind."""

_ROUNDING_SECONDS = 1e-4
"""Of times since 1970, and of the agent's conversion of its clock."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A turn's beginning while another session wants the lane too."""

    turn: int
    behind_seconds: float
    """How much longer the other one had waited than it had held turns."""

    paused_seconds: float
    """The other one's longest time between iterations in its turn just before; 0: it was waiting already."""

    owed_seconds: float
    """What it had not made up for yet of its waits for those that filled its gaps."""

    def is_due(self, quantum_seconds: float) -> bool:
        """Return whether the other one was less than a quantum behind."""
        return self.behind_seconds < quantum_seconds + _ROUNDING_SECONDS

    @property
    def fills_gap(self) -> bool:
        """Return whether the other one left a gap, and owed none."""
        return self.paused_seconds > _PAUSE_SECONDS and self.owed_seconds < _ROUNDING_SECONDS


def length_seconds(turn: Turn) -> float:
    """Return how long an ended turn lasted."""
    return float(turn["end_seconds"] - turn["start_seconds"])


def undue_grants(
    own: Sequence[Turn],
    others: Sequence[Turn],
    iterations: Sequence[tuple[float, float]],
    quantum_seconds: float,
) -> list[Grant]:
    """Return the turns that another session got beside a session of the same weight, and was neither due nor left.

    Args:
        own: all turns of the session, the oldest first.
        others: the turns of the other one, the oldest first.
        iterations: when the session's iterations began and ended, by CLOCK_MONOTONIC.
        quantum_seconds: the configured quantum.
    """
    ended = [turn for turn in own if turn["end_seconds"]]
    for number, turn in enumerate(ended, 1):
        if turn["end"] == "revoked":
            # On a busy machine the session may be late itself. What it is charged for its late release is not in the record.
            del ended[number:]
            break
    grants = _grants_beside(ended, others, iterations, quantum_seconds)
    return [grant for grant in grants if not grant.is_due(quantum_seconds) and not grant.fills_gap]


def longest_idle_wait_seconds(own: Sequence[Turn], others: Sequence[Turn]) -> float:
    """Return for how long at most a session waited while nobody held its lane, nor kept it after a turn without a release.

    Args:
        own: all turns of the session, the oldest first.
        others: the turns of the other sessions of its lane.
    """
    longest_seconds = 0.0
    for turn in own:
        free_since_seconds = turn["start_seconds"] - turn["waited_seconds"]
        for other in sorted(others, key=lambda each: float(each["start_seconds"])):
            if other["start_seconds"] >= turn["start_seconds"]:
                break
            longest_seconds = max(longest_seconds, other["start_seconds"] - free_since_seconds)
            released = other["end"] == "released"
            end_seconds = other["end_seconds"] if released else turn["start_seconds"]
            free_since_seconds = max(free_since_seconds, end_seconds)
        longest_seconds = max(longest_seconds, turn["start_seconds"] - free_since_seconds)
    return longest_seconds


def _grants_beside(
    own: Sequence[Turn],
    others: Sequence[Turn],
    iterations: Sequence[tuple[float, float]],
    quantum_seconds: float,
) -> Iterator[Grant]:
    """Yield the grants of the other session's turns. Time before its first request does not count."""
    since_seconds = min((turn["start_seconds"] - turn["waited_seconds"] for turn in others), default=0.0)
    behind_seconds = owed_seconds = paused_seconds = before_seconds = 0.0
    for turn in own:
        start_seconds = turn["start_seconds"]
        requested_seconds = start_seconds - turn["waited_seconds"]
        if requested_seconds - before_seconds > _REENTRY_SECONDS:
            behind_seconds = min(behind_seconds, _RECALL_SECONDS)
        left = False
        for other in others:
            if not before_seconds - _ROUNDING_SECONDS <= other["start_seconds"] < start_seconds:
                continue
            waited_seconds = max(0.0, other["start_seconds"] - requested_seconds)
            grant = Grant(
                other["turn"],
                behind_seconds + waited_seconds,
                0.0 if waited_seconds else paused_seconds,
                owed_seconds,
            )
            left |= not grant.is_due(quantum_seconds)
            yield grant
        held_seconds = max(0.0, turn["end_seconds"] - max(start_seconds, since_seconds))
        behind_seconds += turn["waited_seconds"] - held_seconds
        owed_seconds = max(0.0, owed_seconds + left * turn["waited_seconds"] - held_seconds)
        paused_seconds = _longest_pause_seconds(turn, iterations)
        before_seconds = turn["end_seconds"]


def _longest_pause_seconds(turn: Turn, iterations: Sequence[tuple[float, float]]) -> float:
    """Return the longest time in a turn without an iteration."""
    offset_seconds = time.time() - time.monotonic()
    since_seconds = turn["start_seconds"] - offset_seconds
    until_seconds = turn["end_seconds"] - offset_seconds
    inside = [each for each in iterations if since_seconds <= each[1] and each[0] <= until_seconds]
    bounds = [(since_seconds, since_seconds), *inside, (until_seconds, until_seconds)]
    return float(max(after[0] - before[1] for before, after in pairwise(bounds)))
