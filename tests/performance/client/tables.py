"""Shows the results of `make bench-client` on the page of measurements."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from typing import Any

from tests.performance.page import Block, table

MEBIBYTE = 1 << 20
GIBIBYTE = 1 << 30


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
            "plain, same time",
            "longer",
            "offloaded",
            "recomputed",
        ],
        (_way(each["model"], way) for each in found for way in each["ways"]),
    )
    yield "\nThe time is the CPU time, copies included, of the fastest of 8 steps; the plain run is measured again before and after each line.\n"


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


def _start(found: Any) -> Iterator[str]:
    yield from table(
        ["", "time", "CPU time"],
        (
            [title, f"{found[name]['wall_ms']} ms", f"{found[name]['processor_ms']} ms"]
            for name, title in (
                ("plain", "start and end of Python without the client"),
                ("laneway", "with the client on its path"),
                ("added", "longer, median of adjacent runs; goal 30 ms"),
            )
        ),
    )
    with_torch = found["with_torch"]
    yield (
        f"\nCPU time of `import torch` with the client: {with_torch['import_torch_ms']:.0f} ms, "
        f"{with_torch['client_ms']:.0f} ms of it for the client's modules, compiled from source.\n\n"
    )
    without = found["without_torch"]
    yield from table(
        ["without PyTorch", "modules", "threads", "sockets", "descriptors", "the client's modules"],
        (
            [
                title,
                *(without[way][name] for name in ("all_modules", "threads", "sockets", "descriptors")),
                ", ".join(f"`{module}`" for module in without[way]["modules"]),
            ]
            for way, title in (("plain", "without the client"), ("laneway", "with it"))
        ),
    )
    yield f"\nConnections to the agent's socket during the test: {without['connections']}.\n"


def _cost(found: Any) -> Iterator[str]:
    ways = {
        "laneway in itself": "simulated GPU, compared with steps without hooks",
        "hooks in itself": "as on a real GPU, compared with steps without hooks",
        "laneway": "simulated GPU, compared with a process without the client",
        "hooks": "as on a real GPU, compared with a process without the client",
    }
    measures = {"longer_wall_percent": "longer", "longer_processor_percent": "longer, CPU time"}
    yield from table(
        [
            "network",
            "steps",
            "with the client",
            *(f"{title}: median of sets (least to most)" for title in measures.values()),
        ],
        (
            [f"{each['network']}, batch {each['batch']}", pace, title]
            + [_spread(one[pace][way][measure] for one in each["sets"]) for measure in measures]
            for each in found["networks"]
            for pace in found["rounds"]
            for way, title in ways.items()
        ),
    )
    paces = [f"{one['rounds']} rounds of {one['steps']} {pace}" for pace, one in found["rounds"].items()]
    yield f"\nGoal: +0.5 %. {len(found['networks'][0]['sets'])} sets of processes; medians of {' and '.join(paces)}.\n\n"
    yield from table(
        [
            "network",
            "steps",
            "a step without the client",
            "its CPU time",
            "steps with every operation traced",
            "longer",
        ],
        (
            [
                f"{each['network']}, batch {each['batch']}",
                pace,
                f"{statistics.median(one[pace]['plain']['wall_ms'] for one in each['sets']):.2f} ms",
                f"{statistics.median(one[pace]['plain']['processor_ms'] for one in each['sets']):.2f} ms",
                f"{sum(one[pace]['watched_steps'] for one in each['sets'])}",
                _spread(
                    one[pace]["watched"]["longer_wall_percent"]
                    for one in each["sets"]
                    if one[pace]["watched"]
                ),
            ]
            for each in found["networks"]
            for pace in found["rounds"]
        ),
    )


def _spread(percents: Iterable[float]) -> str:
    found = sorted(percents)
    return f"{statistics.median(found):+.2f} % ({found[0]:+.2f} to {found[-1]:+.2f})" if found else ""


def _offload(found: Any) -> Iterator[str]:
    moves = {
        "offload": "to the host",
        "restore": "and back",
        "copy_to_new_memory": "a copy alone, into new memory",
        "copy": "into existing memory",
    }
    yield from table(
        ["seconds per GiB (CPU time in brackets)", *moves.values()],
        (
            [
                _gibibytes(each["moves"][0]["freed_bytes"]),
                *(
                    f"{each[f'{what}_seconds_per_gib']:.2f} ({each[f'{what}_processor_seconds_per_gib']:.2f})"
                    for what in moves
                ),
            ]
            for each in found
        ),
    )
    yield "\n"
    yield from table(
        [
            "moved",
            "ordered, until the agent knows",
            "until the next step is done",
            "held before",
            "away",
            "after",
            "resident before",
            "away",
            "after",
        ],
        (
            [
                _gibibytes(each["moves"][0]["freed_bytes"]),
                *(
                    f"{statistics.median(move[name] for move in each['moves']):.2f} s"
                    for name in ("ordered_offload_seconds", "ordered_restore_seconds")
                ),
                *(
                    _gibibytes(each["moves"][-1][name])
                    for name in (
                        "held_before_bytes",
                        "held_away_bytes",
                        "held_bytes",
                        "resident_before_bytes",
                        "resident_away_bytes",
                        "resident_after_bytes",
                    )
                ),
            ]
            for each in found
        ),
    )
    yield (
        f"\nMedians of {len(found[0]['moves'])} moves each; bytes of the last one. Every bit was back after each one "
        "(CRC-32 of parameters, gradients and both moments of Adam). A copy into new memory includes the kernel's clearing of its pages. "
        "Restored storages reuse the memory of copies that have been read.\n"
    )


def _gibibytes(size: int) -> str:
    return f"{size / GIBIBYTE:.2f} GiB"


CLIENT = Block(
    "client",
    "bench-client",
    {
        "client-start": ("The start of Python, and a process without PyTorch", _start),
        "client-cost": ("The cost of the client in a training step", _cost),
        "client-offload": ("A training's memory, to the host and back", _offload),
        "client-fit": ("An iteration fitted to a part of its memory", _fit),
    },
)
