"""The input of the report: one simulation's figures and history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laneway.simulator.history import Interval, Sample
from laneway.simulator.report import Report
from laneway.simulator.simulation import Simulation


@dataclass(frozen=True, slots=True)
class Outcome:
    """The figures and the history of one policy."""

    report: Report
    completion_seconds: tuple[float, ...]
    """JCTs of the finished jobs, ascending."""

    samples: Sequence[Sample]
    intervals: Sequence[Interval]
    gpus_by_node: Sequence[tuple[str, tuple[str, ...]]]
    """Names of the nodes and uuids of their GPUs, in order."""

    from_seconds: float
    """The first submission."""

    to_seconds: float
    """The end of the simulation."""

    @property
    def name(self) -> str:
        """Return the policy and its placement."""
        return f"{self.report.policy} / {self.report.placement}"


def outcome_of(simulation: Simulation, report: Report) -> Outcome:
    """Return the outcome of a simulation, complete or interrupted."""
    runs = simulation.runs.values()
    return Outcome(
        report,
        tuple(
            sorted(
                run.finish_seconds - run.job.submit_seconds for run in runs if run.finish_seconds is not None
            )
        ),
        simulation.history.samples,
        simulation.intervals(),
        [
            (node.name, tuple(gpu.uuid for gpu in node.gpus))
            for node in sorted(simulation.nodes, key=lambda node: node.name)
        ],
        min((run.job.submit_seconds for run in runs), default=0.0),
        simulation.now_seconds,
    )
