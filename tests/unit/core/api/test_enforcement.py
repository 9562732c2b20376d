"""The order of the levels, and the message about one that does not suffice."""

from __future__ import annotations

import pytest
from laneway.api.enforcement import LEVELS, Enforcement, reaches, shortfall, stronger

ASCENDING = ["None", "Cooperative", "Watchdog", "Interposer", "MPS"]


def test_each_level_reaches_itself_and_all_weaker_ones() -> None:
    assert [level.value for level in LEVELS] == ASCENDING
    for number, level in enumerate(ASCENDING):
        assert [reaches(level, minimum) for minimum in ASCENDING] == [
            at <= number for at in range(len(ASCENDING))
        ]


def test_of_two_levels_one_is_stronger() -> None:
    assert stronger("Watchdog", "Cooperative") is Enforcement.WATCHDOG
    assert stronger(Enforcement.NONE, Enforcement.MPS) is Enforcement.MPS


def test_what_is_no_level_is_no_weaker_than_another() -> None:
    with pytest.raises(KeyError, match="hard"):
        reaches("MPS", "hard")


@pytest.mark.parametrize(
    ("minimum", "level", "reason", "says"),
    [
        ("", "Cooperative", "", ""),
        ("Watchdog", "Watchdog", "no MPS: it has none", ""),
        ("Watchdog", "MPS", "", ""),
        (
            "MPS",
            "Watchdog",
            "no MPS: it has none",
            "it demands the enforcement 'MPS', and 'Watchdog' is in force on its GPU: no MPS: it has none",
        ),
        ("Watchdog", "Cooperative", "", "the node's configuration asks for no more (enforcement.level)"),
        ("mps", "MPS", "", "'mps', which is no level: write one of Cooperative, Watchdog, Interposer, MPS"),
    ],
)
def test_what_falls_short_is_said_with_its_reason(minimum: str, level: str, reason: str, says: str) -> None:
    said = shortfall(minimum, Enforcement(level), reason)

    assert bool(said) == bool(says)
    assert says in said
