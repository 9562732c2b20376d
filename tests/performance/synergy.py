"""Compares our allocation policies with Synergy's own simulator (OSDI'22) on its default workload.

    python -m tests.performance.synergy -o synergy.json

Jobs of one GPU arrive 9 times an hour at 16 servers with 8 GPUs, 24 CPUs and 500 GB, first come, first served, with proportional
shares of CPUs and memory and with Synergy-Tune. Figures are of the jobs with the numbers 4,000 to 4,999, as in the reference. From
ours to the reference, its differences are switched on one after the other (:mod:`tests.performance.synergy_rounds`); each is shown
with its effect. The last step has to give the published figure.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean

from laneway.scheduling import Demand, HostResources, policies
from laneway.scheduling.model.host_resources import CPU, MEMORY
from laneway.simulator import Costs, Simulation, TraceJob, make_nodes
from laneway.simulator.models.synergy import SENSITIVITIES, Synergy
from laneway.simulator.traces.synergy import ITERATION_SECONDS

from tests.performance.synergy_rounds import (
    GPUS_OF_SERVER,
    SERVER_CPU_MILLIS,
    SERVER_MEMORY_BYTES,
    SERVERS,
    Line,
    completion_seconds,
    workload,
)

MEASURED = range(4000, 5000)
JOBS = 6500
"""The later ones share GPUs and CPUs with the measured ones, until these have ended."""

PUBLISHED_HOURS = {"proportional": 81.0886, "tune": 21.8766}
"""The mean JCT that the published simulator prints; for ``tune`` it stands in its ``ae-readme.md`` too."""

SAME_PERCENT = 0.01
"""The last step ends at most this far from the published figure."""

_SHORT_ROUND_SECONDS = 60
"""Short enough to be none."""

_STEPS: Mapping[str, Sequence[tuple[str, Mapping[str, float | bool]]]] = {
    "proportional": (("jobs start and end with rounds of 300 s, and make whole iterations in each", {}),),
    "tune": (
        (
            "a job gets its best demand or its proportional share, nothing between; all are placed again at any moment, and moving "
            "costs nothing",
            {"round_seconds": _SHORT_ROUND_SECONDS, "whole_iterations": False},
        ),
        ("jobs start, move and end with rounds of 300 s, and make whole iterations in each", {}),
    ),
}
"""What the reference does otherwise, with the parameters of the rounds that do this and all that came before."""


@dataclass(frozen=True, slots=True)
class Step:
    """A simulation that is one difference nearer to the reference than the one before."""

    what: str
    average_jct_hours: float
    difference_percent: float
    """To the reference."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """An allocation policy in our simulator and in the reference."""

    policy: str
    average_jct_hours: float
    p99_jct_hours: float
    reference_hours: float
    difference_percent: float
    steps: Sequence[Step]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print a table, and write JSON."""
    parser = argparse.ArgumentParser(description="Compare our allocation policies with Synergy's simulator.")
    parser.add_argument("-o", "--output", type=Path, help="where the figures go, as JSON")
    options = parser.parse_args(arguments)
    lines = tuple(workload(JOBS))
    comparisons = [compare(policy, lines) for policy in PUBLISHED_HOURS]
    for each in comparisons:
        print(
            f"{each.policy}: {each.average_jct_hours:.2f} h, p99 {each.p99_jct_hours:.2f} h; "
            f"reference {each.reference_hours:.2f} h ({each.difference_percent:+.1f} %)"
        )
        for step in each.steps:
            print(f"    {step.what}: {step.average_jct_hours:.4f} h ({step.difference_percent:+.2f} %)")
    if options.output:
        found = [asdict(comparison) for comparison in comparisons]
        options.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 0 if all(abs(each.steps[-1].difference_percent) <= SAME_PERCENT for each in comparisons) else 1


def compare(policy: str, lines: Sequence[Line]) -> Comparison:
    """Run one policy in our simulator, and the steps to the reference."""
    ours = sorted(simulated(policy, lines))
    average = mean(ours)
    return Comparison(
        policy=policy,
        average_jct_hours=round(average, 4),
        p99_jct_hours=round(ours[99 * len(ours) // 100], 4),
        reference_hours=PUBLISHED_HOURS[policy],
        difference_percent=round(_off_percent(average, policy), 2),
        steps=tuple(_steps(policy, lines)),
    )


def _steps(policy: str, lines: Sequence[Line]) -> Iterator[Step]:
    for what, parameters in _STEPS[policy]:
        jct_seconds = completion_seconds(lines, MEASURED, tune=policy == "tune", **parameters)  # type: ignore[arg-type]
        average = mean(jct_seconds[number] for number in MEASURED) / 3600
        yield Step(what, round(average, 4), round(_off_percent(average, policy), 4))


def simulated(allocation: str, lines: Sequence[Line]) -> list[float]:
    """Return the JCT in hours of each measured job under an allocation policy of ours."""
    jobs = [
        TraceJob(
            f"default/{line.number}",
            Demand(),
            float(line.submit_seconds),
            line.iterations * ITERATION_SECONDS[line.model],
            model=line.model,
            sensitivity=SENSITIVITIES[line.model],
        )
        for line in lines
    ]
    host = HostResources.of({CPU: SERVER_CPU_MILLIS, MEMORY: SERVER_MEMORY_BYTES})
    nodes = [replace(node, host=host) for node in make_nodes(f"{SERVERS}x{GPUS_OF_SERVER}")]
    free = Costs(start_seconds=0, leave_seconds=0, restart_seconds=0)
    simulation = Simulation(jobs, nodes, policies(order="fifo", allocation=allocation), free, model=Synergy())
    found: list[float] = []
    left = list(MEASURED)
    while left:
        run = simulation.runs.get(f"default/{left[-1]}")
        if run is not None and run.finish_seconds is not None:
            found.append((run.finish_seconds - run.job.submit_seconds) / 3600)
            left.pop()
        elif not simulation.step():
            raise RuntimeError(f"job {left[-1]} does not finish under {allocation}")
    return found


def _off_percent(average_hours: float, policy: str) -> float:
    return 100 * (average_hours / PUBLISHED_HOURS[policy] - 1)


if __name__ == "__main__":
    sys.exit(main())
