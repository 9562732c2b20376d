"""Short ways to say what a trace holds."""

from __future__ import annotations

from dataclasses import replace

from laneway.scheduling import Demand, Node, Profile, policies
from laneway.simulator import Costs, Knowledge, Simulation, TraceJob, make_nodes
from laneway.simulator.models.speed_model import SpeedModel

FREE = Costs(
    start_seconds=0,
    leave_seconds=0,
    restart_seconds=0,
    pause_seconds=0,
    resume_seconds=0,
    offload_seconds_per_gib=0,
    restore_seconds_per_gib=0,
)
SMALL = Profile(persistent_bytes=2**30, ephemeral_bytes=2**30, iteration_seconds=1.0)


def a_job(
    name: str,
    duration: float,
    *,
    submit: float = 0.0,
    gpus: int = 1,
    share: int = 100,
    profile: Profile | None = None,
    model: str = "",
) -> TraceJob:
    """A gang of workers with a GPU, or a share of one, each."""
    return TraceJob(name, Demand(gpus, share_percent=share), submit, duration, profile=profile, model=model)


def sharing_memory(nodes: str, *, offered_percent: int) -> tuple[Node, ...]:
    """Nodes whose GPUs hold paused jobs in memory beside running ones."""
    return tuple(
        replace(
            node,
            gpus=tuple(
                replace(gpu, allocatable_percent=offered_percent, active_percent=100) for gpu in node.gpus
            ),
        )
        for node in make_nodes(nodes)
    )


def simulated(
    *jobs: TraceJob,
    nodes: str | tuple[Node, ...] = "1x1",
    order: str = "tiresias-las",
    costs: Costs = FREE,
    min_run: float = 0.0,
    model: SpeedModel | None = None,
    knowledge: Knowledge | None = None,
    **options: object,
) -> Simulation:
    """The simulation of these jobs, run to its end."""
    chosen = policies(order=order, order_options=options, preemption_options={"min_run_seconds": min_run})
    cluster = make_nodes(nodes) if isinstance(nodes, str) else nodes
    simulation = Simulation(jobs, cluster, chosen, costs, model=model, knowledge=knowledge)
    simulation.run()
    return simulation


def finishes(simulation: Simulation) -> dict[str, float | None]:
    """When each job finished."""
    return {key: run.finish_seconds for key, run in sorted(simulation.runs.items())}
