"""Turns of a node's GPUs as the page draws them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from laneway.board.views.fields import Object, count, text


def turn_views(turns: Iterable[object]) -> list[dict[str, Any]]:
    """Return the turns of an agent's answer; one that is malformed is left out.

    Times are in seconds since the epoch by the node's clock; ``end`` is None for a turn in progress.
    """
    return [view for turn in turns if isinstance(turn, dict) and (view := _turn(turn)) is not None]


def newest(turns: Iterable[dict[str, Any]], before: float) -> float:
    """Return the time up to which ended turns are known: the latest end, or the given time if it is later."""
    return max([before, *(float(turn["end"]) for turn in turns if turn["end"] is not None)])


def _turn(turn: Object) -> dict[str, Any] | None:
    start, end = _seconds(turn.get("start_seconds")), _seconds(turn.get("end_seconds"))
    if start is None or (end is None and turn.get("end_seconds") is not None):
        return None
    return {
        "key": f"{text(turn, 'gpu')}/{count(turn, 'lane')}/{count(turn, 'turn')}",
        "gpu": text(turn, "gpu"),
        "lane": count(turn, "lane"),
        "session": text(turn, "session"),
        "job": text(turn, "job"),
        "pod": text(turn, "pod"),
        "start": start,
        "end": end,
        "outcome": text(turn, "end"),
    }


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) else None
