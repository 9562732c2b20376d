"""How the page of measurements shows what `make test-gpu` found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.performance.page import Block, table

GIB = 1 << 30


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


GPU = Block("gpu", "test-gpu", {"gpu-sharing": ("Jobs that share one GPU", _sharing)})
