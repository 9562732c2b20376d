"""Short ways to say what a trace holds."""

from __future__ import annotations

from laneway.scheduling import Demand, policies
from laneway.simulator import Costs, Simulation, TraceJob, make_nodes

FREE = Costs(start_seconds=0, leave_seconds=0, restart_seconds=0)


def a_job(name: str, duration: float, *, submit: float = 0.0, gpus: int = 1, share: int = 100) -> TraceJob:
    """A gang of workers with a GPU, or a share of one, each."""
    return TraceJob(name, Demand(gpus, share_percent=share), submit, duration)


def simulated(
    *jobs: TraceJob,
    nodes: str = "1x1",
    order: str = "tiresias-las",
    costs: Costs = FREE,
    min_run: float = 0.0,
    **options: object,
) -> Simulation:
    """The simulation of these jobs, run to its end."""
    chosen = policies(order=order, order_options=options, preemption_options={"min_run_seconds": min_run})
    simulation = Simulation(jobs, make_nodes(nodes), chosen, costs)
    simulation.run()
    return simulation


def finishes(simulation: Simulation) -> dict[str, float | None]:
    """When each job finished."""
    return {key: run.finish_seconds for key, run in sorted(simulation.runs.items())}
