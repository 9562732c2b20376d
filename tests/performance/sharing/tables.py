"""How the page of measurements shows what `make bench-sharing` found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from tests.performance.page import Block, seconds, table
from tests.performance.sharing.workload import CROWD, PAIRS


def _sharing(found: Any) -> Iterator[str]:
    yield from table(
        ["", "measured", "goal"],
        (row for goal in found["goals"] for row in _goal_rows(goal)),
    )
    yield "\nThe pairs, each on one GPU:\n\n"
    yield from table(
        [
            "jobs use, %",
            "sharing",
            "makespan",
            "average JCT",
            "mean slow-down",
            "training, of one after the other",
            "while both train",
        ],
        (
            _pair_row(name, phase["sharing"], phase[name])
            for name in PAIRS
            for phase in found["phases"]
            if name in phase
        ),
    )
    yield "\nThe crowd, ten jobs on six GPUs:\n\n"
    yield from table(
        ["sharing", "makespan", "average JCT", "mean slow-down", "largest", "preemptions"],
        (
            [
                phase["sharing"],
                seconds(phase[CROWD]["makespan_seconds"]),
                seconds(phase[CROWD]["average_jct_seconds"]),
                _percent(phase[CROWD]["mean_slowdown_percent"]),
                _percent(phase[CROWD]["largest_slowdown_percent"]),
                phase[CROWD]["preemptions"],
            ]
            for phase in found["phases"]
            if CROWD in phase
        ),
    )
    yield "\nEach job that shared its GPU:\n\n"
    yield from table(
        ["sharing", "job", "kind", "placed after", "beside", "slow-down"],
        (
            [
                phase["sharing"],
                job["job"],
                job["kind"],
                _placed_after(job),
                ", ".join(job["beside"]),
                _percent(job["slowdown_percent"]),
            ]
            for phase in found["phases"]
            for job in phase["jobs"]
            if job["beside"]
        ),
    )
    jobs = [job for phase in found["phases"] for job in phase["jobs"]]
    busy = ", ".join(f"{phase['cores_busy']:g} ({phase['sharing']})" for phase in found["phases"])
    yield (
        f"\nEach job trains for about {found['job_seconds']:g} s alone. A slow-down compares a job's training time with that of its kind alone "
        f"on a GPU. A job's process used {fmean(job['cpu_percent'] for job in jobs):.1f} % of a core on average, "
        f"{max(job['cpu_percent'] for job in jobs):.1f} % at most; cores busy by phase, with everything on the machine: {busy}.\n"
    )


def _goal_rows(goal: Mapping[str, Any]) -> Iterator[list[object]]:
    pair_goal = f"at most {goal['pair_goal']:g}, aim {goal['pair_aim']:g}"
    yield [
        f"{goal['sharing']}: two half-idle jobs, of one after the other",
        f"{goal['half_idle_pair_ratio']:.2f}",
        pair_goal,
    ]
    steady = goal["half_idle_pair_steady_ratio"]
    yield [
        f"{goal['sharing']}: the same, while both train",
        "" if steady is None else f"{steady:.2f}",
        pair_goal,
    ]
    jobs, most = f"{goal['crowd_jobs_per_gpu']:.2f}", f"at most {goal['slowdown_goal_percent']:g} %"
    yield [f"{goal['sharing']}: jobs on a GPU", jobs, f"{goal['jobs_per_gpu_goal']:g}"]
    yield [
        f"{goal['sharing']}: mean slow-down of the crowd",
        _percent(goal["crowd_mean_slowdown_percent"]),
        most,
    ]
    yield [
        f"{goal['sharing']}: makespan of the crowd, of that without sharing",
        f"{goal['crowd_makespan_ratio']:.2f}",
        "",
    ]
    yield [
        f"{goal['sharing']}: average JCT of the crowd, of that without sharing",
        f"{goal['crowd_average_jct_ratio']:.2f}",
        "",
    ]


def _pair_row(name: str, sharing: str, pair: Mapping[str, Any]) -> list[object]:
    steady = pair["steady_ratio"]
    return [
        name,
        sharing,
        seconds(pair["makespan_seconds"]),
        seconds(pair["average_jct_seconds"]),
        _percent(pair["mean_slowdown_percent"]),
        f"{pair['ratio']:.2f}",
        "" if steady is None else f"{steady:.2f}",
    ]


def _placed_after(job: Mapping[str, Any]) -> str:
    return ", ".join(seconds(max(0.0, each - job["submit_seconds"])) for each in job["placed_seconds"])


def _percent(value: float) -> str:
    return f"{value:.0f} %"


SHARING = Block("sharing", "bench-sharing", {"sharing": ("Jobs that share GPUs, on a cluster", _sharing)})
