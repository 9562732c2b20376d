"""Action: allot. Asks the allocation policy for the CPUs and the memory of the placed workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from laneway.scheduling.allocation.floors import Allotments, allot_with_floors
from laneway.scheduling.allocation.policy import NodeCapacity, PlacedGang, PlacedWorker
from laneway.scheduling.model.host_resources import CPU, MEMORY, add
from laneway.scheduling.model.plan import Decision
from laneway.scheduling.model.snapshot import Job, JobState, Node, WorkerPlacement
from laneway.scheduling.state.scheduler_state import SchedulerState


def allotments(state: SchedulerState, order: Sequence[str], decision: Decision) -> Allotments:
    """Return the CPUs and the memory of each worker that trains, or starts to, after a decision.

    No worker gets fewer CPUs than its floor (``Job.cpu_floor_millis``), and the CPUs of a node are not exceeded while the floors fit.
    Jobs that are paused or leave keep what they request. Jobs on nodes of unknown CPUs or memory are left out: their pods'
    requests count.

    Args:
        state: after the decision.
        order: the jobs that hold GPUs or start, and perhaps others; the first one goes first.
        decision: the decision.
    """
    policy = state.policies.allocation
    if policy is None:
        return {}
    known = {node.name: node for node in state.allocations.nodes if _is_known(node)}
    placed: dict[str, int] = {}
    reserved: dict[str, dict[str, int]] = {}
    gangs: list[PlacedGang] = []
    for position, key in enumerate(order):
        job = state.jobs[key]
        trains = job.state in (JobState.STARTING, JobState.RUNNING) and key not in decision.preemptions
        starts = key in decision.starts or key in decision.resumes
        placement = decision.starts.get(key, job.placement)
        if (trains or starts) and placement and all(each.node in known for each in placement):
            gangs.append(_gang(job, placement, position))
            for worker in gangs[-1].workers:
                placed[worker.node] = placed.get(worker.node, 0) + worker.gpu_percent
            continue
        for each in placement:
            add(reserved.setdefault(each.node, {}), job.demand.requests)
    nodes = [
        _capacity(node, placed.get(name, 0), reserved.get(name, {}), state.policies.spare_cpu_percent)
        for name, node in known.items()
    ]
    return allot_with_floors(policy, nodes, gangs)


def _is_known(node: Node) -> bool:
    host = node.host
    return bool(node.gpus) and host is not None and host.of_resource(CPU) > 0 and host.of_resource(MEMORY) > 0


def _gang(job: Job, placement: Sequence[WorkerPlacement], position: int) -> PlacedGang:
    floor = job.cpu_floor_millis
    if floor is None:
        floor = job.demand.requests.of_resource(CPU)
    workers = (
        PlacedWorker(each.worker, each.node, each.share_percent * len(each.gpus), floor) for each in placement
    )
    return PlacedGang(job.key, tuple(workers), job.sensitivity, position)


def _capacity(
    node: Node, placed_percent: int, reserved: Mapping[str, int], spare_percent: int
) -> NodeCapacity:
    """Return what a node has for gangs. A GPU counts once, though jobs that share it may be placed on several times its percent, and its
    GPUs may offer less than is placed there, or nothing, since their shares can be changed."""
    assert node.host is not None
    offered = sum(min(100, gpu.allocatable_percent) for gpu in node.gpus)
    whole = node.host if node.host_capacity is None else node.host_capacity
    spare = whole.of_resource(CPU) * spare_percent // 100
    return NodeCapacity(
        node.name,
        max(1, offered, placed_percent),
        max(0, node.host.of_resource(CPU) - reserved.get(CPU, 0) - spare),
        max(0, node.host.of_resource(MEMORY) - reserved.get(MEMORY, 0)),
    )
