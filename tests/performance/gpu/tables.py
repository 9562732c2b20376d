"""How the page of measurements shows what `make test-gpu` found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.performance.page import Block, column, table, table_of

GIB = 1 << 30
MIB = 1 << 20


def _sharing(found: Any) -> Iterator[str]:
    gpu = found["gpu"]
    yield f"GPU: {gpu['name']}{', driver ' + gpu['driver'] if gpu['driver'] else ''}.\n\n"
    for each in found["networks"]:
        left_out = "".join(f" Left out: {way} ({why})." for way, why in each["left_out"].items())
        yield (
            f"**{each['network']}**, batch {each['batch']}, {each['iterations_per_job']} iterations a job, PyTorch {each['torch']}"
            f"{', CUDA ' + each['cuda'] if each['cuda'] else ''}.{left_out}\n\n"
        )
        yield from table(
            [
                "jobs",
                "way",
                "samples a second",
                "of one after the other",
                "mean JCT",
                "makespan",
                "rounds apart",
                "memory beyond idle",
            ],
            (_row(crowd, way) for crowd in each["crowds"] for way in crowd["ways"]),
        )
        yield "\n"


def _row(crowd: dict[str, Any], way: dict[str, Any]) -> list[object]:
    first = crowd["ways"][0]["samples_per_second"]
    memory = way["beyond_idle_bytes"]
    return [
        crowd["jobs"],
        way["way"],
        f"{way['samples_per_second']:,.0f}",
        f"{way['samples_per_second'] / first:.2f}",
        f"{way['mean_jct_seconds']:.2f} s",
        f"{way['makespan_seconds']:.2f} s",
        f"{way['makespan_spread_percent']:.1f} %",
        "" if memory is None else f"{memory / GIB:.2f} GiB",
    ]


def _memory_account(found: Any) -> Iterator[str]:
    yield (
        "Growth of the account and of the memory that the driver shows as used, after a first allocation of the kind. A program's "
        f"context alone takes {found['context_bytes'] / MIB:,.1f} MiB, which the account leaves to the framework's memory.\n\n"
    )
    yield from table_of(
        found["allocators"],
        column("allocator", "allocator"),
        column("asked for", "asked_bytes", "{:,} B"),
        column("account", "account_bytes", "{:,} B"),
        column("driver", "driver_bytes", "{:,} B"),
        column("driver minus account", "error_bytes", "{:,} B"),
    )


def _launch_gate(found: Any) -> Iterator[str]:
    rows = {"to submit a kernel": "submit", "a kernel of 10 µs, with its run": "ten_microsecond_kernels"}
    yield from table(
        ["for each launch", "with the gate", "without", "cost"],
        (
            [
                what,
                f"{found[name]['gated_nanoseconds']:,.1f} ns",
                f"{found[name]['without_nanoseconds']:,.1f} ns",
                f"{found[name]['cost_nanoseconds']:,.1f} ns",
            ]
            for what, name in rows.items()
        ),
    )
    once = found["kernels_at_once"]
    yield (
        f"\nThe cost is {found['percent_of_ten_microseconds']} % of 10 µs. Two programs of one lane: {once['with']['pairs']} pairs of "
        f"{once['with']['kernels']:,} kernels ran at once; without the gate {once['without']['pairs']} of "
        f"{once['without']['kernels']:,}.\n"
    )


def _shares(found: Any) -> Iterator[str]:
    yield f"GPU: {found['gpu']}. Trainings: `{found['options']}`.\n\n"
    yield from table(
        ["shares", "way", "progress of each", "of its share", "sum", "over time-slicing"],
        (
            [
                "/".join(map(str, case["shares_percent"])),
                way["way"],
                _percents(way["progress_percent"]),
                _percents(way["percent_of_share"]),
                f"{way['sum_percent']} %",
                way["sum_over_time_slicing"],
            ]
            for case in found["cases"]
            for way in case["ways"]
        ),
    )
    for case in found["cases"]:
        of = case["hand_off"]
        yield (
            f"\nHand-offs in one lane, {'/'.join(map(str, case['shares_percent']))}: p50 {of['p50_us']:,.0f} µs, p99 {of['p99_us']:,.0f} µs "
            f"of {of['count']:,}, from the end of a job's last iteration, with its kernels done, to the begin of the next job's first.\n"
        )


def _percents(values: list[float]) -> str:
    return " / ".join(f"{each} %" for each in values)


GPU = Block(
    "gpu",
    "test-gpu",
    {
        "gpu-sharing": ("Jobs that share one GPU", _sharing),
        "gpu-memory-account": ("The memory account beside the driver", _memory_account),
        "gpu-launch-gate": ("The launch gate on a real driver", _launch_gate),
        "gpu-shares": ("Shares of a GPU's time", _shares),
    },
)
