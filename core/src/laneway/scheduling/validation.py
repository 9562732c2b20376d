"""The check that every plan passes before it leaves. It shares no code with the policies that it checks, but for the
counting of bytes."""

from __future__ import annotations

from collections.abc import Iterator

from laneway.lanes import Tenant, tightest_bytes
from laneway.scheduling.plan_types import Plan
from laneway.scheduling.snapshot import GPU, ClusterSnapshot, Job, JobState, Node, WorkerPlacement
from laneway.scheduling.suitability import accepts_model, class_of, share_needed
from laneway.scheduling.tenancy import foreign_tenant, tenant_of


class InvalidPlan(Exception):  # noqa: N818 - the caller did nothing wrong; the name says what it is
    """A plan breaks an invariant; the message says which, and where."""


def validate(snapshot: ClusterSnapshot, plan: Plan) -> None:
    """Check a plan against the snapshot that it was made from.

    GPUs on which the plan starts nobody are not looked at: what the snapshot found there is not the plan's doing.

    Raises:
        InvalidPlan: with a sentence that names the job, the GPU and the numbers.
    """
    jobs = {job.key: job for job in snapshot.jobs}
    _check_every_job_has_one_fate(jobs, plan)
    nodes = {node.name: node for node in snapshot.nodes}
    for key, placement in plan.starts.items():
        _check_gang(jobs[key], placement)
        for worker in placement:
            _check_worker(jobs[key], worker, nodes, snapshot.avoid.get(key, frozenset()))
    _check_gpus(snapshot, plan)


def _check_every_job_has_one_fate(jobs: dict[str, Job], plan: Plan) -> None:
    fates: dict[str, list[str]] = {key: [] for key in jobs}
    for fate, keys in {
        "start": plan.starts,
        "make way": plan.preemptions,
        "stay": plan.keeps,
        "wait": plan.waiting,
    }.items():
        for key in keys:
            if key not in fates:
                raise InvalidPlan(f"the plan lets {key} {fate}, and the snapshot has no such job")
            fates[key].append(fate)
    for key, found in fates.items():
        state = jobs[key].state
        if state is JobState.LEAVING:
            allowed: tuple[list[str], ...] = ([],)
        elif state is JobState.WAITING:
            allowed = (["wait"],) if jobs[key].suspended else (["start"], ["wait"])
        else:
            allowed = (["make way"],) if jobs[key].suspended else (["make way"], ["stay"])
        if found not in allowed:
            raise InvalidPlan(f"job {key} is {state} and is to {' and '.join(found) or 'do nothing'}")
        if found == ["make way"] and not (jobs[key].preemptible or jobs[key].suspended):
            raise InvalidPlan(f"job {key} is to make way, and it is not preemptible")


def _check_gang(job: Job, placement: tuple[WorkerPlacement, ...]) -> None:
    ranks = [worker.worker for worker in placement]
    if ranks != list(range(job.demand.workers)):
        raise InvalidPlan(f"job {job.key} has {job.demand.workers} workers and starts with ranks {ranks}")
    gpus = [uuid for worker in placement for uuid in worker.gpus]
    if len(gpus) != len(set(gpus)):
        raise InvalidPlan(f"workers of job {job.key} share a GPU: {', '.join(gpus)}")


def _check_worker(job: Job, worker: WorkerPlacement, nodes: dict[str, Node], avoided: frozenset[str]) -> None:
    who = f"worker {worker.worker} of job {job.key}"
    if len(worker.gpus) != job.demand.gpus_per_worker:
        raise InvalidPlan(f"{who} needs {job.demand.gpus_per_worker} GPUs and gets {len(worker.gpus)}")
    node = nodes.get(worker.node)
    if node is None or not node.schedulable or worker.node in avoided:
        raise InvalidPlan(f"{who} is to start on {worker.node}, which takes no worker of it")
    on_node = {gpu.uuid: gpu for gpu in node.gpus}
    for uuid in worker.gpus:
        gpu = on_node.get(uuid)
        if gpu is None or not gpu.healthy:
            raise InvalidPlan(f"{who} is to use {uuid}, which is no healthy GPU of {worker.node}")
        if not accepts_model(job.demand, gpu.model):
            raise InvalidPlan(f"{who} is to use {uuid}, a {gpu.model}, which it does not accept")
        needed = share_needed(job.demand, class_of(gpu))
        if needed != worker.share_percent:
            raise InvalidPlan(f"{who} gets {worker.share_percent} percent of {uuid} and needs {needed}")


def _check_gpus(snapshot: ClusterSnapshot, plan: Plan) -> None:
    """Check percent, memory and exclusiveness of every GPU on which somebody starts."""
    gpus = {gpu.uuid: gpu for node in snapshot.nodes for gpu in node.gpus}
    touched = {uuid for placement in plan.starts.values() for worker in placement for uuid in worker.gpus}
    percent = {uuid: gpus[uuid].foreign_percent for uuid in touched}
    tenants = {uuid: [foreign_tenant(f, gpus[uuid]) for f in gpus[uuid].foreign] for uuid in touched}
    for job, worker, uuid in _placed(snapshot, plan):
        if uuid in touched:
            percent[uuid] += worker.share_percent
            tenants[uuid].append(tenant_of(job, gpus[uuid], worker.share_percent))
    for uuid in sorted(touched):
        _check_gpu(gpus[uuid], percent[uuid], tenants[uuid])


def _placed(snapshot: ClusterSnapshot, plan: Plan) -> Iterator[tuple[Job, WorkerPlacement, str]]:
    for job in snapshot.jobs:
        for worker in (*job.placement, *plan.starts.get(job.key, ())):
            for uuid in worker.gpus:
                yield job, worker, uuid


def _check_gpu(gpu: GPU, percent: int, tenants: list[Tenant]) -> None:
    names = ", ".join(sorted(tenant.key for tenant in tenants))
    if percent > gpu.allocatable_percent:
        raise InvalidPlan(
            f"{gpu.uuid} offers {gpu.allocatable_percent} percent and is promised {percent} to {names}"
        )
    needed_bytes = tightest_bytes(tenants, gpu.lane_rules)
    if needed_bytes > gpu.allocatable_bytes:
        raise InvalidPlan(
            f"{gpu.uuid} has {gpu.allocatable_bytes} bytes for jobs, and {names} need {needed_bytes} at least"
        )
    if len(tenants) > 1 and any(tenant.exclusive for tenant in tenants):
        raise InvalidPlan(f"{gpu.uuid} is to be held by one job alone, and {names} are on it")
    spanning = sum(tenant.spans_gpus for tenant in tenants)
    if 0 < gpu.lane_rules.max_lanes < spanning:
        raise InvalidPlan(
            f"{gpu.uuid} has {gpu.lane_rules.max_lanes} lanes for {spanning} jobs on several GPUs: {names}"
        )
