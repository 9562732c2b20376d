"""Streams of jobs, and simulations of them under the default policies with the default costs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from laneway.scheduling import Demand, Node, Policies, policies
from laneway.simulator import Costs, Simulation, TraceJob, make_nodes

HOUR = 3600.0
MINUTE = 60.0
DAY = 24 * HOUR


def a_job(
    name: str,
    seconds: float,
    *,
    gpus: int = 1,
    submit: float = 0.0,
    priority: int = 0,
    preemptible: bool = True,
    saves: bool = True,
    only_on: str = "",
    nodes: Sequence[str] = (),
) -> TraceJob:
    """A gang of workers with a GPU each.

    Args:
        name: its name.
        seconds: how long it runs undisturbed.
        gpus: its width.
        submit: when it is submitted.
        priority: of its priority class.
        preemptible: whether it may be preempted.
        saves: whether it writes checkpoints.
        only_on: the node that its node selector demands; empty: any.
        nodes: the names of all nodes.
    """
    avoided = frozenset(nodes) - {only_on} if only_on else frozenset()
    return TraceJob(
        f"ns/{name}",
        Demand(gpus),
        submit,
        seconds,
        priority=priority,
        preemptible=preemptible,
        saves=saves,
        avoided_nodes=avoided,
    )


def stream(
    load: float,
    cluster_gpus: int,
    seconds: float,
    end_seconds: float,
    *,
    name: str = "small",
    priority: int = 0,
    preemptible: bool = True,
    saves: bool = True,
    seed: int = 1,
) -> Iterator[TraceJob]:
    """Yield one-GPU jobs with Poisson arrivals that load a cluster to a part of its GPUs."""
    rng, at_seconds, number = random.Random(seed), 0.0, 0
    while True:
        at_seconds += rng.expovariate(load * cluster_gpus / seconds)
        if at_seconds > end_seconds:
            return
        yield a_job(
            f"{name}-{number:06}",
            seconds,
            submit=at_seconds,
            priority=priority,
            preemptible=preemptible,
            saves=saves,
        )
        number += 1


def overcommitted(node: Node) -> Node:
    """Let each GPU of a node hold twice what can take turns there."""
    gpus = (replace(gpu, allocatable_percent=200, active_percent=100) for gpu in node.gpus)
    return replace(node, gpus=tuple(gpus))


def simulated(
    *jobs: TraceJob,
    nodes: str,
    until_done: str = "",
    until_seconds: float = float("inf"),
    chosen: Policies | None = None,
    pauses: bool = False,
    watch: Callable[[Simulation], None] | None = None,
) -> Simulation:
    """Simulate under the default policies.

    Args:
        jobs: the trace.
        nodes: the cluster, as ``8x8``.
        until_done: a job at whose end the simulation stops; empty: at the end of the last job.
        until_seconds: when it stops at the latest.
        chosen: other policies.
        pauses: whether each GPU can hold a paused job beside one that runs.
        watch: called after each step.
    """
    made = [overcommitted(node) for node in make_nodes(nodes)] if pauses else make_nodes(nodes)
    simulation = Simulation(jobs, made, chosen or policies(), Costs())
    while simulation.now_seconds < until_seconds and simulation.step():
        if watch is not None:
            watch(simulation)
        run = simulation.runs.get(f"ns/{until_done}")
        if run is not None and run.finish_seconds is not None:
            break
    return simulation


def completion_seconds(simulation: Simulation, name: str) -> float:
    """Return the time from a job's submission to its end."""
    run = simulation.runs[f"ns/{name}"]
    assert run.finish_seconds is not None, f"{name} has not ended after {simulation.now_seconds:.0f} s"
    return run.finish_seconds - run.job.submit_seconds
