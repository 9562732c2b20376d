"""How many examples hypothesis tries of a property: two fifths in `make test-unit`, all where `LONG` is set, as in `make test-long`.

No example has a time limit, because a machine that is busy is no failure.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_TIMES = int(os.environ.get("LONG", "0"))
_DEFAULT = 100
"""Hypothesis's own number."""


def examples(full: int) -> int:
    """Returns how many of `full` examples are tried; LONG=3 tries three times as many."""
    return full * _TIMES or max(1, 2 * full // 5)


def load_profile() -> None:
    """Makes this the number for properties that do not name their own."""
    settings.register_profile(
        "untimed",
        deadline=None,
        max_examples=examples(_DEFAULT),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("untimed")
