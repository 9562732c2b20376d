"""The table at the top of ``docs/measurements.md``: results that have a goal, each with its goal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.performance.page import PAGE, table, write_between

BEGIN = "<!-- glance: written by the benchmarks from docs/measurements/*.json -->\n"
END = "<!-- end of glance -->\n"


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of one result, and what it is measured against."""

    question: str
    result: str
    """The name of the result's file, without ``.json``."""

    figure: Callable[[Any], float]
    form: str
    """The format of figure and goal, with the unit."""

    goal: float
    section: str
    """Where the page says more."""

    at_least: bool = False
    """The figure should not be below the goal; otherwise not above it."""


def _of_lanes(name: str) -> Callable[[Any], float]:
    return lambda found: next(float(each[name]) for each in found["goals"] if each["sharing"] == "lanes")


def _busiest_p99_milliseconds(found: Any) -> float:
    parts = (
        part["decisions"] for part in found.values() if isinstance(part, Mapping) and "decisions" in part
    )
    return max(float(decisions["p99_milliseconds"]) for decisions in parts)


def _largest_error_percent(found: Any) -> float:
    runs = [run for case in found["cases"].values() for run in case["runs"]]
    return max(
        abs(float(run[f"{what}_error_percent"])) for run in runs for what in ("average_jct", "makespan")
    )


def _pollux_times_better(found: Any) -> float:
    ratios = [float(each["times_better"]) for each in found if each["policy"] == "pollux"]
    return sum(ratios) / len(ratios)


def _filled_percent(found: Any) -> float:
    return next(
        float(each["allocated_percent"]["130"])
        for each in found
        if (each["workload"], each["placement"]) == ("with-cpus", "fgd")
    )


_NODE, _CLIENT, _SHARING = "#node", "#client", "#jobs-that-share-gpus-on-a-cluster"
_SCHEDULING, _OPERATOR = "#scheduling", "#the-operator-with-a-thousand-nodes-and-thousands-of-jobs"

GOALS = (
    Goal(
        "an iteration boundary in a lane that nobody else wants, median",
        "node-boundary",
        lambda found: found["gate"]["median_us"],
        "{:.3g} µs",
        2,
        _NODE,
    ),
    Goal(
        "a turn's hand-off between two processes, median",
        "node-hand-off",
        lambda found: found["hand_off"]["p50_us"],
        "{:.0f} µs",
        100,
        _NODE,
    ),
    Goal(
        "the agent's CPU time for a turn, 64 sessions in 16 lanes",
        "node-agent-load",
        lambda found: found["agent_cpu_us_per_turn"],
        "{:.0f} µs",
        50,
        _NODE,
    ),
    Goal(
        "the interposer's gate, of launches of 10 µs",
        "node-launch-gate",
        lambda found: found["percent_of_ten_microseconds"],
        "{:.2g} %",
        1,
        _NODE,
    ),
    Goal(
        "the start of Python with the client, longer by",
        "client-start",
        lambda found: found["added"]["wall_ms"],
        "{:.2g} ms",
        30,
        _CLIENT,
    ),
    Goal(
        "two half-idle jobs on one GPU, of the time of one after the other",
        "sharing",
        _of_lanes("half_idle_pair_ratio"),
        "{:.2f}",
        0.67,
        _SHARING,
    ),
    Goal(
        "jobs on a GPU, in a crowd of ten on six",
        "sharing",
        _of_lanes("crowd_jobs_per_gpu"),
        "{:.2f}",
        1.6,
        _SHARING,
        at_least=True,
    ),
    Goal(
        "how much slower the jobs of that crowd train",
        "sharing",
        _of_lanes("crowd_mean_slowdown_percent"),
        "{:.0f} %",
        20,
        _SHARING,
    ),
    Goal(
        "simulator against the cluster, nine runs, largest error of average JCT or makespan",
        "real-cluster",
        _largest_error_percent,
        "{:.1f} %",
        10,
        _SCHEDULING,
    ),
    Goal(
        "average JCT of `multilevel-las` on Muri's cluster trace without sharing, times better than Tiresias' simulator",
        "better",
        lambda found: found[0]["times_better"],
        "{:.2f}",
        1.3,
        _SCHEDULING,
        at_least=True,
    ),
    Goal(
        "average JCT of `pollux`, mean of eight workloads, times better than published",
        "elastic",
        _pollux_times_better,
        "{:.2f}",
        1,
        _SCHEDULING,
        at_least=True,
    ),
    Goal(
        "Alibaba's GPUs that `fgd` fills at 130 % of demand, CPUs counted",
        "fragmentation",
        _filled_percent,
        "{:.1f} %",
        95,
        _SCHEDULING,
        at_least=True,
    ),
    Goal(
        "operator, 8,000 GPUs and 5,000 jobs: p99 of a cycle in the busiest part",
        "operator-scale",
        _busiest_p99_milliseconds,
        "{:.0f} ms",
        250,
        _OPERATOR,
    ),
    Goal(
        "the same: memory",
        "operator-scale",
        lambda found: found["operator_memory_mib"]["largest"] * 2**20 / 1e6,
        "{:.0f} MB",
        400,
        _OPERATOR,
    ),
    Goal(
        "the same: pods bound a second, of what a bare client can",
        "operator-scale",
        lambda found: found["from_submission_to_bound"]["of_the_bare_client_percent"],
        "{:.0f} %",
        70,
        _OPERATOR,
        at_least=True,
    ),
    Goal(
        "the same: CPU while nothing happens, of a core",
        "operator-scale",
        lambda found: found["idle"]["operator_cpu_percent"],
        "{:.1f} %",
        2,
        _OPERATOR,
    ),
)


def write_glance(results: Path, page: Path = PAGE) -> None:
    """Write the table between its marks.

    Args:
        results: the folder with the result files; goals whose result is missing get no row.
        page: the page, which contains the marks.

    Raises:
        ValueError: the page does not contain the marks.
    """
    write_between(page, BEGIN, END, "".join(glance(results)))


def glance(results: Path) -> Iterator[str]:
    """Yield the table's lines."""
    yield from table(
        ["what", "measured", "goal", "reached"],
        (
            _row(goal, results / f"{goal.result}.json")
            for goal in GOALS
            if (results / f"{goal.result}.json").exists()
        ),
    )


def _row(goal: Goal, file: Path) -> list[str]:
    figure = goal.figure(json.loads(file.read_text(encoding="utf-8"))["result"])
    reached = figure >= goal.goal if goal.at_least else figure <= goal.goal
    bound = "at least" if goal.at_least else "at most"
    return [
        f"[{goal.question}]({goal.section})",
        goal.form.format(figure),
        f"{bound} {goal.form.format(goal.goal)}",
        "yes" if reached else "**no**",
    ]
