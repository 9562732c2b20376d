"""Which jobs joined others on their GPUs, on the cluster and in the simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laneway.api.rfc3339 import parse_time
from laneway.simulator import Simulation
from laneway.simulator.history import Phase

from hack.demo.jobs import JobView


@dataclass(frozen=True, slots=True)
class Hold:
    """A job's last attempt. Times in seconds; only differences count."""

    job: str
    gpus: frozenset[str]
    from_seconds: float
    to_seconds: float


def joined(holds: Sequence[Hold]) -> frozenset[str]:
    """Return the jobs that were placed on a GPU while another job held it."""
    return frozenset(
        one.job
        for one in holds
        for other in holds
        if one.gpus & other.gpus
        and (other.from_seconds, other.job) < (one.from_seconds, one.job)
        and one.from_seconds < other.to_seconds
    )


def recorded_holds(views: Mapping[str, JobView]) -> list[Hold]:
    """Return the last attempts of jobs that have completed."""
    found = []
    for name, view in views.items():
        execution, completed = view.status.execution, view.status.completion_time
        if execution is not None and completed is not None:
            gpus = frozenset(gpu for worker in view.status.placement for gpu in worker.gpus)
            found.append(Hold(name, gpus, parse_time(execution.started_at), parse_time(completed)))
    return found


def simulated_holds(simulation: Simulation) -> list[Hold]:
    """Return the last attempts of the jobs of a simulation, by the names that the cluster has for them."""
    starts = {each.job: each for each in simulation.intervals() if each.phase is Phase.STARTING}
    return [
        Hold(
            key.partition("/")[2],
            frozenset(starts[key].gpus),
            starts[key].from_seconds,
            run.finish_seconds,
        )
        for key, run in simulation.runs.items()
        if run.finish_seconds is not None
    ]
