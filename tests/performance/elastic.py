"""Goodput-based allocation on Pollux' eight workloads, against what Pollux' own simulator published of them.

    python -m tests.performance.elastic --traces ../shared/traces -o elastic.json

The same curves, costs (30 s for each start) and cluster (16 nodes of 4 GPUs). The published averages are those of
``simulator/results-jobload/{pollux,tiresias}-1.0/summary.json`` of petuum/adaptdl, branch ``osdi21-artifact``. Its simulator decides each
60 s; ours also when a job comes or goes. Its Tiresias has two queues, 16 GPU-hours apart, and no promotion.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from laneway.simulator import Simulation, make_nodes, read_trace, report
from laneway.simulator.setup import make_setup

NODES = "16x4"
COSTS = ["start_seconds=30", "leave_seconds=0", "restart_seconds=30"]
OPTIONS = {
    "pollux": COSTS,
    "tiresias-las": [*COSTS, "thresholds_gpu_seconds=57600", "promotion_factor=0"],
}
PUBLISHED = {
    "pollux": (2089.0, 3323.0, 2188.0, 2721.0, 2674.0, 2446.0, 3616.0, 2952.0),
    "tiresias-las": (2474.0, 5145.0, 3876.0, 3280.0, 3501.0, 3470.0, 5480.0, 5080.0),
}
"""Average JCT in seconds, by workload from 1."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One workload under one policy."""

    workload: int
    policy: str
    average_jct_seconds: float
    published_jct_seconds: float
    times_better: float
    """Published over ours."""

    p99_jct_seconds: float
    makespan_seconds: float
    rescales: int
    decision_seconds: float
    simulation_seconds: float
    """Wall clock, all of it."""


def outcome(traces: Path, workload: int, policy: str) -> Outcome:
    """Simulate one workload under one policy."""
    began = time.perf_counter()
    setup = make_setup(policy, None, OPTIONS[policy])
    trace = read_trace(traces / "pollux" / "workloads" / f"workload-{workload}.csv")
    simulation = Simulation(trace, make_nodes(NODES), setup.policies, setup.costs, model=setup.model)
    simulation.run()
    found = report(simulation, policy=policy, placement=setup.placement)
    published = PUBLISHED[policy][workload - 1]
    return Outcome(
        workload,
        policy,
        found.average_jct_seconds,
        published,
        published / found.average_jct_seconds,
        found.p99_jct_seconds,
        found.makespan_seconds,
        sum(run.rescales for run in simulation.runs.values()),
        simulation.decision_seconds,
        time.perf_counter() - began,
    )


def main() -> None:
    """Print each outcome as it comes, and write all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--traces", type=Path, required=True, help="the folder with pollux/")
    parser.add_argument("--workloads", default="1,2,3,4,5,6,7,8", help="numbers, separated by commas")
    parser.add_argument("-o", "--output", type=Path, help="the JSON file to write")
    arguments = parser.parse_args()
    found = []
    for workload in map(int, arguments.workloads.split(",")):
        for policy in OPTIONS:
            found.append(outcome(arguments.traces, workload, policy))
            print(
                f"workload-{workload} {policy}: {found[-1].average_jct_seconds:,.0f} s, published "
                f"{found[-1].published_jct_seconds:,.0f} s; {found[-1].simulation_seconds:.1f} s to simulate",
                flush=True,
            )
    for policy in OPTIONS:
        ours = [each for each in found if each.policy == policy]
        mean = sum(each.average_jct_seconds for each in ours) / len(ours)
        published = sum(each.published_jct_seconds for each in ours) / len(ours)
        print(f"{policy}, mean: {mean:,.0f} s, published {published:,.0f} s")
    if arguments.output:
        arguments.output.write_text(
            json.dumps([asdict(each) for each in found], indent=2) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
