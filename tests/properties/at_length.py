"""State machines over more steps than the unit tests have time for, in parts that run in parallel processes."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import ClassVar, Protocol

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

AT_LENGTH = settings(
    max_examples=60,
    stateful_step_count=100,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
"""Of a round. Rounds are short, so that few steps are tried beyond those that are wanted."""


LONG = int(os.environ.get("LONG", "1"))
"""How many times as many steps are tried; ``make test-long`` sets it."""


class Counting(Protocol):
    """A state machine that counts what happens, over all of its instances."""

    happened: ClassVar[Counter[str]]


_MOST = 4
"""How many times as many steps are tried where an event is rare."""


def run_at_length(
    machine: type[RuleBasedStateMachine], step: str, steps: int, wanted: dict[str, int], *, part: int
) -> None:
    """Runs a :class:`Counting` machine until `step` has happened `steps` times (times LONG), and each event as often as is wanted, so
    that the invariants were tried on it; asserts that this comes to an end.

    Each round and each part tries different examples. If hypothesis is derandomized (`CI` is set), every run
    tries the same ones.
    """

    happened: Counter[str] = machine.happened  # type: ignore[attr-defined]
    happened.clear()
    first = 1_000 * part if settings.default.derandomize else random.randrange(2**32)
    round_number = 0
    while happened[step] < LONG * steps or (
        _seldom(happened, wanted) and happened[step] < _MOST * LONG * steps
    ):
        before = happened[step]
        run_state_machine_as_test(seed(first + round_number)(machine), settings=AT_LENGTH)
        assert happened[step] > before, f"a round without {step!r}: this loop would not end"
        round_number += 1
    print(dict(happened))
    assert not _seldom(happened, wanted), f"too seldom: {_seldom(happened, wanted)}, wanted {wanted}"


def _seldom(happened: Counter[str], wanted: dict[str, int]) -> dict[str, int]:
    return {event: happened[event] for event, times in wanted.items() if happened[event] < times}
