"""Compares what Gittins learns from the jobs that have ended with distributions that it is given.

    python -m tests.performance.gittins_learning --traces ../shared/traces -o gittins-learning.json

``tiresias-gittins`` runs each trace on 64 GPUs with the default costs of preemptions: with the services of all jobs of that trace, which
no cluster could know in advance; learning them as the jobs end, from nothing; with the log-normal distribution that is assumed if nothing
is learnt; and, for comparison, ``tiresias-las``, which reads no distribution. All have the same queues and no promotion. Then the first two
with the jobs of the last queue by arrival: any remaining difference is due to the other queues.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from laneway.scheduling.order.tiresias_gittins import TiresiasGittins
from laneway.simulator import Simulation, TraceJob, make_nodes, read_trace, report
from laneway.simulator.setup import make_setup
from laneway.simulator.traces import ReadOptions

from tests.performance.result_file import write_outcomes

NODES = "8x8"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One trace under one policy."""

    trace: str
    jobs: int
    knows: str
    """What the policy knows of services."""

    average_jct_seconds: float
    p99_jct_seconds: float
    makespan_seconds: float
    preemptions: int


def outcomes(traces: Path) -> Iterator[Outcome]:
    """Run everything; yield as it comes.

    Args:
        traces: the folder with ``muri/`` and ``pollux/``.
    """
    named: dict[str, Sequence[TraceJob]] = {
        "muri/cluster_trace.csv": read_trace(traces / "muri/cluster_trace.csv"),
        "muri/trace3.csv": read_trace(traces / "muri/trace3.csv"),
        "pollux/traces/philly.csv, 3,000 jobs": read_trace(
            traces / "pollux/traces/philly.csv", ReadOptions(limit=3000)
        ),
    }
    for name, trace in named.items():
        services = tuple(job.duration_seconds * job.demand.gpus for job in trace)
        known = {
            "all services of the trace": TiresiasGittins(samples_gpu_seconds=services),
            "those of ended jobs": TiresiasGittins(),
            "an assumed distribution": TiresiasGittins(learn_after_jobs=0),
            "nothing (tiresias-las)": None,
            "all services of the trace, last queue by arrival": TiresiasGittins(
                samples_gpu_seconds=services, last_queue_by_arrival=True
            ),
            "those of ended jobs, last queue by arrival": TiresiasGittins(last_queue_by_arrival=True),
        }
        for knows, policy in known.items():
            yield _outcome(name, trace, knows, policy)


def _outcome(name: str, trace: Sequence[TraceJob], knows: str, policy: TiresiasGittins | None) -> Outcome:
    setup = make_setup("tiresias-las", None, [])
    chosen = setup.policies if policy is None else replace(setup.policies, order=policy)
    simulation = Simulation(trace, setup.nodes(make_nodes(NODES)), chosen, setup.costs, model=setup.model)
    simulation.run()
    found = report(simulation, policy=setup.policy, placement=setup.placement)
    return Outcome(
        name,
        len(trace),
        knows,
        found.average_jct_seconds,
        found.p99_jct_seconds,
        found.makespan_seconds,
        found.preemptions,
    )


if __name__ == "__main__":
    write_outcomes(outcomes, "muri/ and pollux/")
