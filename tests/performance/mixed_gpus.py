"""Gavel's 96 jobs on 8 V100, 16 P100 and 24 K80, under its policies and ours.

    python -m tests.performance.mixed_gpus --traces ../shared/traces -o mixed-gpus.json

First as its public simulator runs them (OSDI'20; ``--policy fifo``, ``max_min_fairness`` and ``max_min_fairness_perf``, seed 0, physical
throughputs): placement counts GPUs, gangs are as fast on several nodes as on one, and evictions are free. What it does otherwise is then
switched on step by step (:mod:`tests.performance.gavel_reference`); nothing of it is fitted, all of it is in its code. Its FIFO has a defect: it
draws a model for each job, but uses the last one of its list, so nearly all jobs share the V100s. Its figures without the defect were measured
by its own code with that line mended, seeds 0 to 4; those with it by its code as it is, seeds 0 to 7.

Then as in a cluster: nodes of 4 GPUs, measured speeds across nodes, evictions of 50 s, a minimum run time of 500 s. Speeds are those
that Gavel measured, or estimates: each template has run on V100s only, and other networks have run on every model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from laneway.scheduling import Policies, policies
from laneway.scheduling.model.gpu_speed import IterationSeconds, Measured, ModelSpeed, estimated_speeds
from laneway.scheduling.order.gavel_las import GavelLAS
from laneway.simulator import Costs, Simulation, TraceJob, make_nodes, report
from laneway.simulator.gavel_throughputs import ALONE, read_throughputs
from laneway.simulator.knowledge import Knowledge
from laneway.simulator.models.gavel import Gavel
from laneway.simulator.traces import ReadOptions, read_trace

from tests.performance.first_difference import first_difference
from tests.performance.gavel_reference import (
    Interior,
    OnlyAtRounds,
    ReferenceFifo,
    Shuffled,
    ShuffledInterior,
    defective_fifo,
)
from tests.performance.result_file import write_outcomes

TRACE = "gavel/physical_cluster/max_min_fairness.trace"
THROUGHPUTS = "gavel/physical_cluster_throughputs.json"
COUNTED, NODES = "1x8:v100:16,1x16:p100:16,1x24:k80:12", "2x4:v100:16,4x4:p100:16,6x4:k80:12"
GPUS = {"v100": 8, "p100": 16, "k80": 24}
FREE = Costs(start_seconds=0, leave_seconds=0, restart_seconds=0)
KNOWN = Knowledge(profiled=True)

FIFO_HOURS, LAS_HOURS, AWARE_HOURS = 9.847, 5.196, 3.824
"""Average JCT that its simulator reports."""

MENDED_FIFO_HOURS = (7.895, 7.256, 6.525, 6.206, 6.999)
"""Without the defect, by seed."""

DEFECT_FIFO_HOURS = (9.847, 10.489, 10.489, 10.489, 7.528, 9.847, 10.489, 7.534)
"""With it, by seed."""

AT_ROUNDS = "jobs start at the beginning of a round only: GPUs that become idle within it stay idle"
AT_RANDOM = "each round fills the models in a random order, by its seed; ours the fastest first"
INTERIOR = "of all divisions of the time with the largest smallest throughput, its solver returns a central one; ours gives what is left to those who gain most"
DEFECT = "the defect, instead: more jobs are given V100s than there are, and share them in rounds; seed 0"
DEFECT_MEAN = "the same, mean of the seeds 0 to 7, against its own"
ITS_RULES = "with the reference's rules"
DRAWN = "it draws the model of each job at random, by its seed, and gives models every 32 minutes: mean of the seeds 0 to 4, against its own without the defect"


@dataclass(frozen=True, slots=True)
class Step:
    """A simulation that is one difference nearer to the reference than the one before."""

    what: str
    average_jct_hours: float
    difference_percent: float
    """To the reference."""

    first: str
    """Where it parts from the step before; empty for a mean of several."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One simulation, and what the reference says."""

    policy: str
    setting: str
    average_jct_hours: float
    makespan_hours: float
    evictions: int
    reference_hours: float | None = None
    difference_percent: float | None = None
    steps: tuple[Step, ...] = ()


class EstimatedSpeeds(Gavel):
    """Jobs run as Gavel measured, but the scheduler knows measurements on V100s only; other networks have run on all models."""

    def speeds_on(self, job: TraceJob, models: Collection[str]) -> tuple[ModelSpeed, ...]:
        """Return estimates, without the models on which the job cannot run."""
        able = [each.model for each in Gavel.speeds_on(self, job, models)]
        name = f"('{job.model}', {job.demand.gpus})"
        measured = _measured(self.throughputs)
        others = [each for other, each in measured.items() if _network(other) != _network(name)]
        return estimated_speeds(able, {"v100": measured[name]["v100"]}, others)


def outcomes(traces: Path) -> Iterator[Outcome]:
    """Yield the simulations."""
    throughputs = str(traces / THROUGHPUTS)
    trace = read_trace(traces / TRACE, ReadOptions(throughputs=traces / THROUGHPUTS))
    bench = _Bench(trace, throughputs)
    yield from bench.fifo()
    yield from bench.compared(
        "gavel-las, not aware of speeds",
        LAS_HOURS,
        GavelLAS(heterogeneity_aware=False),
        [
            (AT_ROUNDS, GavelLAS(heterogeneity_aware=False)),
            (AT_RANDOM, Shuffled(heterogeneity_aware=False)),
            (INTERIOR, ShuffledInterior(heterogeneity_aware=False)),
        ],
    )
    yield from bench.compared(
        "gavel-las", AWARE_HOURS, GavelLAS(), [(AT_ROUNDS, GavelLAS()), (INTERIOR, Interior())]
    )
    for order in ("fifo", "multilevel-las", "gavel-las"):
        yield bench.in_a_cluster(order, "measured speeds", Gavel(throughputs))
    yield bench.in_a_cluster("gavel-las", "estimated speeds", EstimatedSpeeds(throughputs))


class _Bench:
    """The trace, and simulations of it."""

    def __init__(self, trace: Sequence[TraceJob], throughputs: str) -> None:
        self._trace = trace
        self._throughputs = throughputs

    def fifo(self) -> Iterator[Outcome]:
        """Compare first come, first served: a few draws decide much, so with the mean over seeds too."""
        ours = self._counted(policies(order="fifo", placement="count"))
        found = []
        for seed in range(len(MENDED_FIFO_HOURS)):
            drawn = ReferenceFifo(GPUS, seed, at_rounds=True)
            chosen = replace(self._free(), admission=(drawn,), order=drawn, placement=drawn)
            found.append(_hours(self._counted(chosen)))
        mean = fmean(found)
        defective = [self._at_rounds(defective_fifo(GPUS, seed)) for seed in range(len(DEFECT_FIFO_HOURS))]
        hours = [_hours(each) for each in defective]
        steps = (
            Step(DRAWN, mean, _off(mean, fmean(MENDED_FIFO_HOURS)), ""),
            Step(DEFECT, hours[0], _off(hours[0], FIFO_HOURS), ""),
            Step(DEFECT_MEAN, fmean(hours), _off(fmean(hours), fmean(DEFECT_FIFO_HOURS)), ""),
        )
        yield self._outcome("fifo", "as the reference", ours, FIFO_HOURS, steps)
        yield self._outcome("fifo", ITS_RULES, defective[0], FIFO_HOURS)

    def compared(
        self, name: str, reference_hours: float, order: GavelLAS, differences: Sequence[tuple[str, GavelLAS]]
    ) -> Iterator[Outcome]:
        """Compare a policy, and switch on what the reference does otherwise."""
        ours = before = self._counted(replace(self._free(), order=order))
        before_name = "ours"
        steps = []
        for what, other in differences:
            after = self._at_rounds(other)
            first = first_difference(before, after, before_name, "this one")
            hours = _hours(after)
            steps.append(Step(what, hours, _off(hours, reference_hours), "" if first is None else first.text))
            before, before_name = after, "the step before"
        yield self._outcome(name, "as the reference", ours, reference_hours, tuple(steps))
        yield self._outcome(name, ITS_RULES, before, reference_hours)

    def in_a_cluster(self, order: str, knows: str, model: Gavel) -> Outcome:
        """Simulate with costs, Laneway's own placement and minimum run time."""
        simulation = Simulation(
            self._trace, make_nodes(NODES), policies(order=order), Costs(), model=model, knowledge=KNOWN
        )
        simulation.run()
        setting = "evictions of 50 s" if order != "gavel-las" else f"evictions of 50 s, {knows}"
        return _outcome(order, setting, simulation)

    def _free(self) -> Policies:
        return policies(placement="count", preemption_options={"min_run_seconds": 0})

    def _counted(self, chosen: Policies) -> Simulation:
        simulation = Simulation(
            self._trace,
            make_nodes(COUNTED),
            chosen,
            FREE,
            model=Gavel(self._throughputs),
            knowledge=KNOWN,
        )
        simulation.run()
        return simulation

    def _at_rounds(self, order: GavelLAS) -> Simulation:
        return self._counted(replace(self._free(), order=order, admission=(OnlyAtRounds(),)))

    def _outcome(
        self,
        name: str,
        setting: str,
        simulation: Simulation,
        reference_hours: float,
        steps: tuple[Step, ...] = (),
    ) -> Outcome:
        ours = _outcome(name, setting, simulation)
        off_percent = _off(ours.average_jct_hours, reference_hours)
        return replace(ours, reference_hours=reference_hours, difference_percent=off_percent, steps=steps)


def _outcome(name: str, setting: str, simulation: Simulation) -> Outcome:
    if not simulation.all_finished:
        raise RuntimeError(f"under {name}, some jobs never finish")
    found = report(simulation, policy=name, placement="")
    return Outcome(
        name,
        setting,
        found.average_jct_seconds / 3600,
        found.makespan_seconds / 3600,
        found.preemptions,
    )


def _hours(simulation: Simulation) -> float:
    return _outcome("", "", simulation).average_jct_hours


def _off(hours: float, reference_hours: float) -> float:
    return 100 * (hours / reference_hours - 1)


def _measured(path: str) -> dict[str, Measured]:
    """Return by job type the times of an iteration on one node."""
    found: dict[str, dict[str, IterationSeconds]] = {}
    throughputs = read_throughputs(Path(path))
    for model in GPUS:
        for job_type, speeds in throughputs[model].items():
            per_second = float(str(speeds[ALONE]))
            if per_second > 0:
                found.setdefault(job_type, {})[model] = IterationSeconds(1 / per_second)
    return dict(found)


def _network(job_type: str) -> str:
    return re.split(r" \(|'", job_type)[1]


if __name__ == "__main__":
    write_outcomes(outcomes, "gavel/")
