"""Action: allot. Asks the allocation policy for the CPUs and the memory of the placed workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from laneway.scheduling.allocation.policy import NodeCapacity, PlacedGang, PlacedWorker
from laneway.scheduling.model.host_resources import CPU, MEMORY
from laneway.scheduling.model.plan import Decision, WorkerAllotment
from laneway.scheduling.model.snapshot import JobState
from laneway.scheduling.state.scheduler_state import SchedulerState


def allotments(
    state: SchedulerState, order: Sequence[str], decision: Decision
) -> Mapping[str, tuple[WorkerAllotment, ...]]:
    """Return the CPUs and the memory of each worker that holds GPUs after a decision.

    Jobs on nodes of unknown CPUs or memory are left out: their pods' requests count.
    """
    policy = state.policies.allocation
    if policy is None:
        return {}
    nodes = [
        NodeCapacity(node.name, sum(gpu.allocatable_percent for gpu in node.gpus), cpu_millis, memory_bytes)
        for node in state.allocations.nodes
        if node.gpus
        and node.host is not None
        and (cpu_millis := node.host.of_resource(CPU)) > 0
        and (memory_bytes := node.host.of_resource(MEMORY)) > 0
    ]
    known = {node.node for node in nodes}
    gangs = []
    for position, key in enumerate(order):
        job = state.jobs[key]
        runs = job.state in (JobState.STARTING, JobState.RUNNING) and key not in decision.preemptions
        placement = decision.starts.get(key, job.placement if runs else ())
        workers = tuple(
            PlacedWorker(worker.worker, worker.node, worker.share_percent * len(worker.gpus))
            for worker in placement
        )
        if workers and all(worker.node in known for worker in workers):
            gangs.append(PlacedGang(key, workers, job.sensitivity, position))
    return policy.allot(nodes, gangs)
