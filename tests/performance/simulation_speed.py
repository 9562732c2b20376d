"""How long a trace of 10,000 jobs takes end to end, in processor time.

    python -m tests.performance.simulation_speed -o simulation.json

The trace is ``synthetic_trace(10_000)`` on 64 nodes of 8 GPUs, count placement, preemption free as in Tiresias' simulator.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from laneway.simulator import Simulation, make_nodes, report
from laneway.simulator.setup import make_setup

from tests.performance.synthetic_trace import synthetic_trace

JOBS = 10_000
NODES = "64x8"
POLICIES = ("fifo", "tiresias-las", "srsf", "srtf")
FREE = ["min_run_seconds=0", "leave_seconds=0", "restart_seconds=0", "profiled=true"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One policy's simulation."""

    policy: str
    jobs: int
    processor_seconds: float
    decisions: int
    average_jct_seconds: float


def measure(policy: str) -> Outcome:
    """Simulate the trace under one policy."""
    trace = synthetic_trace(JOBS)
    setup = make_setup(policy, "count", FREE)
    began = time.process_time()
    simulation = Simulation(
        trace,
        make_nodes(NODES),
        setup.policies,
        setup.costs,
        model=setup.model,
        knowledge=setup.knowledge,
    )
    simulation.run()
    took_seconds = time.process_time() - began
    found = report(simulation, policy=policy, placement="count")
    return Outcome(
        policy,
        found.jobs,
        took_seconds,
        simulation.decisions,
        found.average_jct_seconds,
    )


def main() -> None:
    """Measure, print, and write the figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    found = []
    for policy in POLICIES:
        found.append(asdict(measure(policy)))
        print(json.dumps(found[-1]), flush=True)
    if arguments.output is not None:
        arguments.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
