"""Sharing under several truths, with what the scheduler may know of them, against Muri-L and against not sharing.

    python -m tests.performance.lanes --traces ../shared/traces -o lanes.json

The truth is a penalty for each other lane of a GPU, on the four stages of Muri's traces; or Muri's own model, in which all jobs of a GPU
take the time of the group's iteration, 1.31 to 1.48 times as long as it computes, as on its testbed. The scheduler knows

- *measured*: what a node measures of an iteration alone, and nothing of the truth: its assumptions stay;
- *corrected*: the same, and the speeds that groups had, once they were measured. That is the operator;
- *stages*: the four stages, corrected as well. No operator knows them;
- *truth*: the truth itself, from the start. It bounds what this policy can reach.

Memory is not counted: the traces have none, and Muri's paper gives none by model. Jobs of one model and width count as one template.

Muri-L (:mod:`tests.performance.muri_l`) runs under the same truth, and knows it. The figure of Muri's own simulator, 127,846 s on
``cluster_trace``, is for a truth that is none of these: there a group may take less time than the longest of its jobs alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from laneway.scheduling import Job, Policies, WorkerPlacement
from laneway.scheduling.config.registry import DEFAULTS
from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.interference import Interference, load_of
from laneway.scheduling.model.shared_speeds import SharedSpeeds, SpeedsByModel
from laneway.scheduling.placement.lanes import Lanes as LanesPlacement
from laneway.simulator import Costs, Report, Simulation, TraceJob, make_nodes, read_trace, report
from laneway.simulator.models.lanes import GPUSpeeds, Lanes
from laneway.simulator.models.lockstep import Lockstep
from laneway.simulator.models.speed_model import SpeedModel
from laneway.simulator.report import percentile
from laneway.simulator.setup import make_setup
from laneway.simulator.traces import ReadOptions

from tests.performance.better import GPUS, NODES
from tests.performance.muri_l import completion_seconds
from tests.performance.result_file import write_outcomes

TRACES = ("muri/cluster_trace.csv", "muri/trace3.csv")
PENALTIES = (0.13, 0.16, 0.20, 0.25, 0.30)
KNOWLEDGE = {
    "measured": ("stages=false", "measured_iterations=0"),
    "corrected": ("stages=false",),
    "stages": (),
    "truth": ("measured_iterations=0",),
}
"""Options of the simulation, by what the scheduler knows."""

_MOVE_SECONDS = Costs().leave_seconds + Costs().restart_seconds


@dataclass(frozen=True, slots=True)
class Truth:
    """How fast jobs really run that share a GPU."""

    name: str
    model: SpeedModel
    speeds: GPUSpeeds


TRUTHS = (
    *(
        Truth(f"penalty {penalty:.2f}", Lanes(parallel_penalty_ratio=penalty), Interference(penalty))
        for penalty in PENALTIES
    ),
    Truth("Muri's lockstep", Lockstep(), Lockstep()),
)


class KnownSpeeds(SharedSpeeds):
    """The truth instead of what was learnt."""

    def __init__(self, speeds: GPUSpeeds) -> None:
        super().__init__()
        self._speeds = speeds

    def predict(self, jobs: Sequence[Job]) -> tuple[float, ...]:
        """Return the real speed of each of the jobs that share a GPU."""
        return self._speeds.speed_ratios([load_of(job.profile) for job in jobs])


class KnownOnEach(SpeedsByModel):
    """The same speeds on GPUs of each model."""

    def __init__(self, speeds: KnownSpeeds) -> None:
        super().__init__()
        self._speeds = speeds

    def on(self, model: str) -> KnownSpeeds:
        """Return the speeds."""
        return self._speeds


@dataclass(frozen=True)
class KnowsTruth:
    """The placement of jobs that share GPUs, by their real speeds."""

    policy: LanesPlacement
    speeds: KnownOnEach

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        """Place a job by the policy."""
        capacity.speeds = self.speeds
        return self.policy.place(job, capacity)

    def profile_key(self, job: Job) -> Hashable:
        """Return what the policy reads of a job."""
        return self.policy.profile_key(job)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One trace under one truth with one knowledge."""

    trace: str
    truth: str
    knows: str
    average_jct_seconds: float
    p99_jct_seconds: float
    preemptions: int
    muri_l_average_jct_seconds: float
    """Muri-L's under the same truth, with free preemption."""

    muri_l_p99_jct_seconds: float
    muri_l_moving_average_jct_seconds: float
    """Muri-L's, if a job that moves pays for it as ours do."""

    times_muri_l: float
    """The average JCT of Muri-L with free preemption, over ours."""

    times_alone: float
    """The average JCT of the same order policy without sharing, over ours."""


def outcomes(traces: Path) -> Iterator[Outcome]:
    """Run everything; yield as it comes.

    Args:
        traces: the folder with ``muri/``.
    """
    for name in TRACES:
        trace = read_trace(traces / name, ReadOptions(durations="iterations"))
        alone_seconds = _run(trace, "count").average_jct_seconds
        for truth in TRUTHS:
            free, moving = (
                sorted(completion_seconds(trace, truth.speeds, GPUS, each)) for each in (0.0, _MOVE_SECONDS)
            )
            for knows in KNOWLEDGE:
                found = _run(trace, "lanes", truth, knows)
                ours = found.average_jct_seconds
                yield Outcome(
                    trace=name,
                    truth=truth.name,
                    knows=knows,
                    average_jct_seconds=ours,
                    p99_jct_seconds=found.p99_jct_seconds,
                    preemptions=found.preemptions,
                    muri_l_average_jct_seconds=fmean(free),
                    muri_l_p99_jct_seconds=percentile(free, 99),
                    muri_l_moving_average_jct_seconds=fmean(moving),
                    times_muri_l=fmean(free) / ours,
                    times_alone=alone_seconds / ours,
                )


def _run(
    trace: Sequence[TraceJob], placement: str, truth: Truth | None = None, knows: str = "stages"
) -> Report:
    policy = DEFAULTS["order"].name
    shared = truth is not None
    setup = make_setup(policy, placement, ["profiled=true", *KNOWLEDGE[knows]] if shared else [])
    nodes = make_nodes(NODES)
    simulation = Simulation(
        trace,
        setup.sharing.shared(nodes) if setup.sharing else nodes,
        _knowing(setup.policies, truth) if truth is not None and knows == "truth" else setup.policies,
        setup.costs,
        model=setup.model if truth is None else truth.model,
        knowledge=setup.knowledge,
    )
    simulation.run()
    return report(simulation, policy=policy, placement=placement)


def _knowing(policies: Policies, truth: Truth) -> Policies:
    assert isinstance(policies.placement, LanesPlacement)
    return replace(policies, placement=KnowsTruth(policies.placement, KnownOnEach(KnownSpeeds(truth.speeds))))


if __name__ == "__main__":
    write_outcomes(outcomes, "muri/")
