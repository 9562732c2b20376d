"""How the page of measurements shows what `make bench-client` found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.performance.page import Block, table

MEBIBYTE = 1 << 20


def _fit(found: Any) -> Iterator[str]:
    yield from table(
        [
            "network",
            "plain ephemeral",
            "",
            "budget",
            "peak",
            "of plain",
            "time of a step",
            "plain beside it",
            "longer",
            "moved",
            "computed again",
        ],
        (_way(each["model"], way) for each in found for way in each["ways"]),
    )
    yield "\nThe time is the processor time, copies included, of the least of 8 steps; the plain run is measured anew before and after each line.\n"


def _way(model: str, way: dict[str, Any]) -> list[object]:
    budget = "" if way["budget_bytes"] is None else f"{way['budget_bytes'] / MEBIBYTE:.2f} MiB"
    what = (
        "a checkpoint on every block"
        if way["budget_bytes"] is None
        else f"Auto, {way['what']}"
        if way["what"].endswith("%")
        else way["what"]
    )
    start = [model, f"{way['plain_bytes'] / MEBIBYTE:.2f} MiB", what, budget]
    if not way["fits"]:
        return [*start, "out of memory", *[""] * 6]
    return [
        *start,
        f"{way['peak_bytes'] / MEBIBYTE:.2f} MiB",
        f"{100 * way['peak_bytes'] / way['plain_bytes']:.0f} %",
        f"{1000 * way['seconds']:.0f} ms",
        f"{1000 * way['plain_seconds']:.0f} ms",
        f"{100 * (way['seconds'] / way['plain_seconds'] - 1):+.0f} %",
        "" if way["budget_bytes"] is None else f"{way['away']} storages",
        "" if way["budget_bytes"] is None else f"{way['recomputed']} modules",
    ]


CLIENT = Block(
    "client", "bench-client", {"fit": ("An iteration that is made to fit a part of its memory", _fit)}
)
