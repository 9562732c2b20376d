"""How the page of measurements shows what `make bench-elastic` found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.performance.page import Block, seconds, table


def _elastic(found: Any) -> Iterator[str]:
    phases = found["phases"]
    yield from table(
        [
            "gangs",
            "average JCT",
            "of the gangs",
            "of the short jobs",
            "makespan",
            "rescales",
            "mean cost of one",
            "steps trained twice",
            "least accuracy",
        ],
        (
            [
                phase["mode"],
                seconds(phase["average_jct_seconds"]),
                seconds(phase["gangs_average_jct_seconds"]),
                seconds(phase["short_average_jct_seconds"]),
                seconds(phase["makespan_seconds"]),
                phase["rescales"],
                _cost(phase["mean_rescale_cost_seconds"]),
                phase["repeated_steps"],
                f"{phase['least_accuracy']:.3f}",
            ]
            for phase in phases
        ),
    )
    yield "\nEach gang that was rescaled:\n\n"
    yield from table(
        ["gangs", "job", "JCT", "trained with workers", "rescales, and what each cost"],
        (
            [
                phase["mode"],
                job["job"],
                seconds(job["jct_seconds"]),
                ", ".join(map(str, job["world_sizes"])),
                ", ".join(map(_rescale, job["rescales"])),
            ]
            for phase in phases
            for job in phase["jobs"]
            if job["rescales"]
        ),
    )
    busy = ", ".join(f"{phase['cores_busy']:g} ({phase['mode']})" for phase in phases)
    yield f"\nCores busy by phase, with everything on the machine: {busy}.\n"


def _rescale(rescale: Mapping[str, Any]) -> str:
    return f"{rescale['from_workers']} to {rescale['to_workers']}: {_cost(rescale['cost_seconds']) or 'not measured'}"


def _cost(cost_seconds: float | None) -> str:
    return "" if cost_seconds is None else seconds(cost_seconds)


ELASTIC = Block(
    "elastic",
    "bench-elastic",
    {"elastic-cluster": ("Fixed gangs and elastic policies on a cluster", _elastic)},
)
