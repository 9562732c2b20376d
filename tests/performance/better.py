"""Compares the project's own policy, which does not know durations, with the best published figures.

    python -m tests.performance.better --traces ../shared/traces -o better.json

Without sharing, the reference is the discretised LAS of Tiresias' simulator, on the same durations (the trace's ``duration``).
With lanes, it is Muri-L, on Muri's own lengths (iterations times iteration time) and stage times; both policies know the stage
times in advance. Preemptions are free in the references and charged at their default cost here. All traces use one set of
parameters, the defaults. Each figure is shown with a lower bound for any schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from laneway.scheduling.config.registry import DEFAULTS
from laneway.simulator import Report, Simulation, TraceJob, make_nodes, read_trace, report
from laneway.simulator.setup import make_setup
from laneway.simulator.traces import ReadOptions

from tests.performance.lower_bounds import alone_seconds, pooled_by_resource_seconds, pooled_seconds
from tests.performance.result_file import write_outcomes
from tests.performance.synthetic_trace import synthetic_trace

NODES = "8x8"
GPUS = 64


@dataclass(frozen=True, slots=True)
class Published:
    """A figure of a reference simulator (see ``reference_figures`` for how these were run)."""

    who: str
    average_jct_seconds: float
    p99_jct_seconds: float


TIRESIAS_LAS = {
    "muri/cluster_trace.csv": Published("Tiresias' simulator, dlas-gpu", 291_019.6, 2_576_282.0),
    "muri/trace3.csv": Published("Tiresias' simulator, dlas-gpu", 312_869.6, 4_707_932.0),
}
MURI_L = {"muri/cluster_trace.csv": Published("Muri's simulator, Muri-L", 127_846.0, 869_497.0)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One trace under one policy and placement."""

    trace: str
    sharing: bool
    policy: str
    placement: str
    average_jct_seconds: float
    p99_jct_seconds: float
    makespan_seconds: float
    preemptions: int
    lower_bound_seconds: float
    """Of the average JCT, for any schedule."""

    against: str
    """The policy that it is compared with; empty: there is no published figure, only our LAS beside it."""

    times_better: float | None
    """Their average JCT over ours."""

    p99_ratio: float | None
    """Our p99 over theirs: at most 1.1 is the aim."""


def outcomes(traces: Path) -> Iterator[Outcome]:
    """Run everything; yield as it comes.

    Args:
        traces: the folder with ``muri/`` and ``pollux/``.
    """
    own = DEFAULTS["order"].name
    for name, published in TIRESIAS_LAS.items():
        trace = read_trace(traces / name)
        yield _outcome(name, trace, own, shared=False, published=published)
    for name in TIRESIAS_LAS:
        trace = read_trace(traces / name, ReadOptions(durations="iterations"))
        yield _outcome(name, trace, own, shared=True, published=MURI_L.get(name))
    others = {
        "pollux/traces/philly.csv, 3,000 jobs": read_trace(
            traces / "pollux/traces/philly.csv", ReadOptions(limit=3000)
        ),
        "synthetic, 2,000 jobs": synthetic_trace(2000, gpus=GPUS),
    }
    for name, trace in others.items():
        beside = _run(trace, "tiresias-las", "count", shared=False)
        las = Published("our tiresias-las", beside.average_jct_seconds, beside.p99_jct_seconds)
        yield _outcome(name, trace, own, shared=False, published=las)


def _outcome(
    name: str, trace: Sequence[TraceJob], policy: str, *, shared: bool, published: Published | None
) -> Outcome:
    placement = "lanes" if shared else "count"
    found = _run(trace, policy, placement, shared=shared)
    pooled = pooled_by_resource_seconds(trace, GPUS) if shared else pooled_seconds(trace, GPUS)
    return Outcome(
        trace=name,
        sharing=shared,
        policy=policy,
        placement=placement,
        average_jct_seconds=found.average_jct_seconds,
        p99_jct_seconds=found.p99_jct_seconds,
        makespan_seconds=found.makespan_seconds,
        preemptions=found.preemptions,
        lower_bound_seconds=max(alone_seconds(trace), pooled),
        against=published.who if published else "",
        times_better=published.average_jct_seconds / found.average_jct_seconds if published else None,
        p99_ratio=found.p99_jct_seconds / published.p99_jct_seconds if published else None,
    )


def _run(trace: Sequence[TraceJob], policy: str, placement: str, *, shared: bool) -> Report:
    setup = make_setup(policy, placement, ["profiled=true"] if shared else [])
    nodes = make_nodes(NODES)
    simulation = Simulation(
        trace,
        setup.sharing.shared(nodes) if setup.sharing else nodes,
        setup.policies,
        setup.costs,
        model=setup.model,
        knowledge=setup.knowledge,
    )
    simulation.run()
    return report(simulation, policy=policy, placement=placement)


if __name__ == "__main__":
    write_outcomes(outcomes, "muri/ and pollux/")
