"""Compares our simulator with the reference simulators on the published traces, policy by policy.

    python -m tests.performance.fidelity --traces ../shared/traces -o fidelity.json

As in the references, placement only counts GPUs, and preemption is free and immediate. Where our average JCT is more than 2 %
off, the reference's deviations from our policy are switched on in our simulator, one after the other, until the figures agree.
Each deviation is shown with its effect and with the first job whose times it changes. Exits with 1 if a difference remains
unexplained.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from laneway.scheduling import Policies, policies
from laneway.scheduling.order.policy import OrderPolicy
from laneway.simulator import Costs, Simulation, TraceJob, make_nodes, report
from laneway.simulator.knowledge import Knowledge
from laneway.simulator.traces import ReadOptions, read_trace

from tests.performance.first_difference import Difference, first_difference
from tests.performance.reference_figures import FIGURES, MURI, TIRESIAS, ReferenceFigure
from tests.performance.reference_index import stepped_index
from tests.performance.reference_order import THRESHOLDS_GPU_SECONDS, ReferenceOrder

NEAR_PERCENT = 2.0
"""A difference up to this needs no explanation."""

SAME_PERCENT = 0.1
"""An explained figure ends at most this far from the reference's."""

SAMPLES = "tiresias/yarn-gput1000.csv"
"""Services of past jobs in GPU-seconds, which the reference's Gittins policy reads."""

OVERHEAD = (
    "Muri takes 4 to 46 s, by model, from the progress of every running job at every submission, finish and demotion, whether "
    "the job is preempted or not; without that its figures are those under 'Muri, overhead 0'"
)


@dataclass(frozen=True, slots=True)
class Step:
    """A simulation that is one difference nearer to the reference than the one before."""

    what: str
    average_jct_seconds: float
    difference_percent: float
    """To the reference."""

    first: Difference | None
    """Where it parts from the step before."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A reference figure and ours."""

    reference: ReferenceFigure
    average_jct_seconds: float
    makespan_seconds: float
    preemptions: int
    difference_percent: float
    """Of the average JCT, to the reference."""

    steps: tuple[Step, ...]
    """From ours to the reference, where ours is not near."""

    explanation: str
    """Empty where ours is near."""

    explained: bool
    """Near, or the steps end at the reference's figure."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print a table, and write JSON."""
    parser = argparse.ArgumentParser(description="Compare our simulator with the reference simulators.")
    parser.add_argument("--traces", type=Path, required=True, help="the folder with muri/ and tiresias/")
    parser.add_argument("-o", "--output", type=Path, help="write what was found here, as JSON")
    options = parser.parse_args(arguments)
    comparisons = [compare(figure, options.traces) for figure in FIGURES]
    if options.output:
        found = [asdict(comparison) for comparison in comparisons]
        options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print("\n".join(_table(comparisons)))
    return 0 if all(comparison.explained for comparison in comparisons) else 1


def compare(figure: ReferenceFigure, traces: Path) -> Comparison:
    """Run what a reference figure is about, and explain the difference if there is one."""
    trace = _trace(traces / figure.trace, as_muri=figure.simulator != TIRESIAS)
    ours = _simulated(trace, figure, _our_order(figure, traces))
    said = report(ours, policy=figure.policy, placement="count")
    off_percent = _off_percent(said.average_jct_seconds, figure)
    near = abs(off_percent) <= NEAR_PERCENT
    steps = () if near else tuple(_steps(figure, trace, ours, traces))
    charged = figure.simulator == MURI
    left_percent = steps[-1].difference_percent if steps else off_percent
    return Comparison(
        reference=figure,
        average_jct_seconds=said.average_jct_seconds,
        makespan_seconds=said.makespan_seconds,
        preemptions=said.preemptions,
        difference_percent=off_percent,
        steps=steps,
        explanation="" if near else "; ".join([*(step.what for step in steps), *([OVERHEAD] * charged)]),
        explained=near or abs(left_percent) <= (NEAR_PERCENT if charged else SAME_PERCENT),
    )


def _steps(
    figure: ReferenceFigure, trace: Sequence[TraceJob], ours: Simulation, traces: Path
) -> Iterator[Step]:
    """Yield simulations that come nearer to the reference by one difference each."""
    before, before_name = ours, "ours"
    for what, order in _differences(figure, traces):
        after = _simulated(trace, figure, order)
        average = report(after, policy=figure.policy, placement="count").average_jct_seconds
        first = first_difference(before, after, before_name, "this one")
        yield Step(what, average, _off_percent(average, figure), first)
        before, before_name = after, "the step before"


def _differences(figure: ReferenceFigure, traces: Path) -> Iterator[tuple[str, OrderPolicy]]:
    """Yield what the reference does otherwise, each with an order that does this and all that came before."""
    timer = (
        "defect: the moment at which a running job outgrows its queue is (limit - executed seconds) / GPUs away, not "
        "(limit - executed GPU-seconds) / GPUs, so it is noticed late or when something else happens"
    )
    if figure.policy == "tiresias-las":
        yield (
            "its queues are lists: a job that outgrows one goes behind those that wait in the next, which take its GPUs; "
            "a preempted job goes before those that waited already",
            ReferenceOrder(mixes_seconds_into_gpu_seconds=False),
        )
        if figure.simulator == TIRESIAS:
            yield timer, ReferenceOrder(mixes_seconds_into_gpu_seconds=True)
    elif figure.policy == "tiresias-gittins":
        samples = _samples(traces)
        stepped = stepped_index(samples, sums_whole_services=False)
        summed = stepped_index(samples, sums_whole_services=True)
        yield (
            "its index is that of a job about to reach the next larger sample, not that of the job's own service",
            ReferenceOrder(mixes_seconds_into_gpu_seconds=False, index=stepped),
        )
        yield (
            "defect: the expected service of the next quantum contains what the job has attained already",
            ReferenceOrder(mixes_seconds_into_gpu_seconds=False, index=summed),
        )
        yield timer, ReferenceOrder(mixes_seconds_into_gpu_seconds=True, index=summed)


def _our_order(figure: ReferenceFigure, traces: Path) -> OrderPolicy:
    """Return our policy, with the reference's parameters."""
    parameters: dict[str, object] = {}
    if figure.policy in ("tiresias-las", "tiresias-gittins"):
        parameters["thresholds_gpu_seconds"] = THRESHOLDS_GPU_SECONDS
        parameters["promotion_factor"] = 0
    if figure.policy == "tiresias-gittins":
        parameters["samples_gpu_seconds"] = tuple(map(float, _samples(traces)))
    return policies(order=figure.policy, order_options=parameters).order


def _simulated(trace: Sequence[TraceJob], figure: ReferenceFigure, order: OrderPolicy) -> Simulation:
    free = policies(placement="count", preemption_options={"min_run_seconds": 0})
    who = Policies(admission=(), order=order, placement=free.placement, preemption=free.preemption)
    costs = Costs(start_seconds=0, leave_seconds=0, restart_seconds=0)
    # Jobs are profiled from the start: a later profile would add a decision, and the reference demotes jobs at decisions only.
    knowledge = Knowledge(profiled=True)
    simulation = Simulation(trace, make_nodes(figure.nodes), who, costs, knowledge=knowledge)
    simulation.run()
    return simulation


@cache
def _trace(path: Path, as_muri: bool) -> tuple[TraceJob, ...]:
    return read_trace(path, ReadOptions(durations="iterations" if as_muri else "column"))


@cache
def _samples(traces: Path) -> tuple[int, ...]:
    with (traces / SAMPLES).open(encoding="utf-8", newline="") as file:
        return tuple(int(row["duration"]) for row in csv.DictReader(file))


def _off_percent(average_jct_seconds: float, figure: ReferenceFigure) -> float:
    return (average_jct_seconds / figure.average_jct_seconds - 1) * 100


def _table(comparisons: Sequence[Comparison]) -> Iterator[str]:
    form = "{:<17} {:<22} {:<5} {:<17} {:>13} {:>13} {:>9}"
    yield form.format("REFERENCE", "TRACE", "NODES", "POLICY", "OURS", "REFERENCE", "OFF")
    for each in comparisons:
        of = each.reference
        yield form.format(
            of.simulator,
            of.trace,
            of.nodes,
            of.policy,
            f"{each.average_jct_seconds:,.1f}",
            f"{of.average_jct_seconds:,.1f}",
            f"{each.difference_percent:+.2f} %",
        )
        for step in each.steps:
            yield f"    {step.what}: {step.average_jct_seconds:,.1f} ({step.difference_percent:+.2f} %)"
            if step.first is not None:
                yield f"      first: {step.first.text}; {step.first.finish_elsewhere} jobs finish at another time"
        if each.explanation and each.reference.simulator == MURI:
            yield f"    {OVERHEAD}"
        if not each.explained:
            yield "    NOT EXPLAINED"


if __name__ == "__main__":
    sys.exit(main())
