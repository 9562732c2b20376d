"""Checks every decision before it leaves. It shares no code with the policies except the counting of bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from laneway.api.enforcement import Enforcement, reaches
from laneway.lanes import Tenant, tightest_bytes
from laneway.scheduling.gpus.mps_clients import MOST_CLIENTS
from laneway.scheduling.model.gpu_class import GPUClass, accepts_model, class_of, share_needed
from laneway.scheduling.model.host_resources import add, format_amount
from laneway.scheduling.model.snapshot import GPU, Job, JobState, Node, WorkerPlacement
from laneway.scheduling.model.tenants import foreign_tenant, paused_tenant, tenant_of

_PAUSED = (JobState.PAUSED, JobState.OFFLOADED)


class InvalidPlan(Exception):  # noqa: N818 - it is the plan that is invalid, not the call
    """A plan breaks an invariant; the message says which, and where."""


class Decided(Protocol):
    """The checked part of a decision."""

    @property
    def starts(self) -> Mapping[str, tuple[WorkerPlacement, ...]]:
        """By job: the placement of its workers."""
        ...

    @property
    def resumes(self) -> Sequence[str]:
        """Paused jobs that resume."""
        ...


class Holdings:
    """The observed placements, kept apart from the state that the policies read."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.jobs: dict[str, Job] = {}
        self.avoided: dict[str, frozenset[str]] = {}
        self.on_gpu: dict[str, dict[str, WorkerPlacement]] = {}
        """By uuid and job; also of GPUs that the cluster no longer has."""

        self.on_node: dict[str, dict[str, int]] = {}
        """By node and job: the workers there; also of nodes that the cluster no longer has."""

        self.nodes: dict[str, Node] = {}
        self.gpus: dict[str, GPU] = {}
        self.classes: dict[str, GPUClass] = {}
        self.set_nodes(nodes)

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """Replace the cluster's nodes."""
        before, self.nodes = self.nodes, {node.name: node for node in nodes}
        for name, node in before.items():
            if self.nodes.get(name) is not node:
                for gpu in node.gpus:
                    del self.gpus[gpu.uuid], self.classes[gpu.uuid]
        for name, node in self.nodes.items():
            if before.get(name) is not node:
                for gpu in node.gpus:
                    self.gpus[gpu.uuid] = gpu
                    self.classes[gpu.uuid] = class_of(gpu)

    def observe(self, job: Job) -> None:
        """Add a job, or replace what is known of it."""
        before = self.jobs.get(job.key)
        self.jobs[job.key] = job
        if before is None or before.placement != job.placement:
            self._release(before)
            for worker in job.placement:
                for uuid in worker.gpus:
                    self.on_gpu.setdefault(uuid, {})[job.key] = worker
                there = self.on_node.setdefault(worker.node, {})
                there[job.key] = there.get(job.key, 0) + 1

    def forget(self, key: str) -> None:
        """Remove a job."""
        self._release(self.jobs.pop(key))
        self.avoided.pop(key, None)

    def avoid(self, key: str, nodes: frozenset[str]) -> None:
        """Set the nodes on which a job must not be placed."""
        self.avoided[key] = nodes

    def _release(self, job: Job | None) -> None:
        for worker in () if job is None else job.placement:
            for uuid in worker.gpus:
                self.on_gpu[uuid].pop(job.key if job else "", None)
            self.on_node[worker.node].pop(job.key if job else "", None)


def check_decision(holdings: Holdings, decided: Decided) -> None:
    """Check the starting and resuming jobs against the observed placements.

    GPUs on which no job starts or resumes are not checked: the decision does not change them.

    Raises:
        InvalidPlan: with a sentence that names the job, the GPU and the numbers.
    """
    touched: dict[str, dict[str, WorkerPlacement]] = {}
    started: dict[str, Job] = {}
    for key, placement in decided.starts.items():
        if key not in holdings.jobs:
            raise InvalidPlan(f"the plan lets {key} start, and the snapshot has no such job")
        _check_gang(holdings.jobs[key], placement)
        started[key] = _with_workers(holdings.jobs[key], len(placement))
        suitable: set[tuple[GPUClass, int]] = set()
        for worker in placement:
            _check_worker(holdings.jobs[key], worker, holdings, suitable)
            for uuid in worker.gpus:
                touched.setdefault(uuid, {})[key] = worker
    for key in decided.resumes:
        for worker in holdings.jobs[key].placement:
            for uuid in worker.gpus:
                touched.setdefault(uuid, {})
    for uuid in sorted(touched):
        if uuid not in holdings.gpus:
            raise InvalidPlan(
                f"{', '.join(decided.resumes)} would resume on {uuid}, which is not in the cluster"
            )
        _check_gpu(holdings.gpus[uuid], touched[uuid], holdings, started, frozenset(decided.resumes))
    _check_hosts(holdings, decided.starts)


def _check_hosts(holdings: Holdings, starts: Mapping[str, tuple[WorkerPlacement, ...]]) -> None:
    """Check what the pods of starting jobs request beside GPUs. A job that holds GPUs has its pods, even if it is paused."""
    starting: dict[str, dict[str, int]] = {}
    for key, placement in starts.items():
        for worker in placement if holdings.jobs[key].demand.requests else ():
            there = starting.setdefault(worker.node, {})
            there[key] = there.get(key, 0) + 1
    for name in sorted(starting):
        host = holdings.nodes[name].host
        if host is None:
            continue
        needed: dict[str, int] = {}
        total: dict[str, int] = {}
        for key, workers in starting[name].items():
            add(needed, holdings.jobs[key].demand.requests, workers)
        for key, workers in (holdings.on_node.get(name, {}) | starting[name]).items():
            add(total, holdings.jobs[key].demand.requests, workers)
        for resource in sorted(needed):
            if total[resource] > host.of_resource(resource):
                raise InvalidPlan(
                    f"{name} has {format_amount(resource, host.of_resource(resource))} for jobs and is promised "
                    f"{format_amount(resource, total[resource])}, with the start of {', '.join(sorted(starting[name]))}"
                )


def _with_workers(job: Job, workers: int) -> Job:
    """Return a job with the number of workers that it starts with: the elastic policy may have chosen another."""
    if workers == job.demand.workers:
        return job
    return replace(job, demand=replace(job.demand, workers=workers))


def _check_gang(job: Job, placement: tuple[WorkerPlacement, ...]) -> None:
    ranks = [worker.worker for worker in placement]
    demand = job.demand
    if ranks != list(range(len(ranks))) or not demand.fewest_workers <= len(ranks) <= demand.most_workers:
        raise InvalidPlan(f"job {job.key} has {demand.workers} workers and starts with ranks {ranks}")
    if not demand.elastic and len(ranks) != demand.workers:
        raise InvalidPlan(f"job {job.key} has {demand.workers} workers and starts with ranks {ranks}")
    gpus = [uuid for worker in placement for uuid in worker.gpus]
    if len(gpus) != len(set(gpus)):
        raise InvalidPlan(f"workers of job {job.key} share a GPU: {', '.join(gpus)}")


def _check_worker(
    job: Job, worker: WorkerPlacement, holdings: Holdings, suitable: set[tuple[GPUClass, int]]
) -> None:
    """Check the placement of a worker; add to ``suitable`` the classes in which the gang may have such a share."""
    if len(worker.gpus) != job.demand.gpus_per_worker:
        raise InvalidPlan(
            f"{_named(job, worker)} needs {job.demand.gpus_per_worker} GPUs and gets {len(worker.gpus)}"
        )
    node = holdings.nodes.get(worker.node)
    if node is None or not node.schedulable or worker.node in holdings.avoided.get(job.key, frozenset()):
        raise InvalidPlan(f"{_named(job, worker)} would start on {worker.node}, which takes no worker of it")
    for uuid in worker.gpus:
        gpu = holdings.gpus.get(uuid)
        if gpu is None or gpu.node != worker.node or not gpu.healthy:
            raise InvalidPlan(
                f"{_named(job, worker)} would use {uuid}, which is not a healthy GPU of {worker.node}"
            )
        gpu_class = holdings.classes[uuid]
        if (gpu_class, worker.share_percent) not in suitable:
            _check_suits(job, worker, gpu)
            suitable.add((gpu_class, worker.share_percent))


def _check_suits(job: Job, worker: WorkerPlacement, gpu: GPU) -> None:
    if not accepts_model(job.demand, gpu.model):
        raise InvalidPlan(
            f"{_named(job, worker)} would use {gpu.uuid}, a {gpu.model}, which it does not accept"
        )
    if not reaches(gpu.enforcement, job.demand.minimum_enforcement):
        raise InvalidPlan(
            f"{_named(job, worker)} would use {gpu.uuid}, held by {gpu.enforcement}, and demands "
            f"{job.demand.minimum_enforcement}"
        )
    needed = share_needed(job.demand, class_of(gpu))
    if needed != worker.share_percent:
        raise InvalidPlan(
            f"{_named(job, worker)} gets {worker.share_percent} percent of {gpu.uuid} and needs {needed}"
        )


def _named(job: Job, worker: WorkerPlacement) -> str:
    return f"worker {worker.worker} of job {job.key}"


def _check_gpu(
    gpu: GPU,
    starting: Mapping[str, WorkerPlacement],
    holdings: Holdings,
    started: Mapping[str, Job],
    resuming: frozenset[str],
) -> None:
    """Check percent, memory and exclusiveness of a GPU on which a job starts or resumes."""
    held = holdings.on_gpu.get(gpu.uuid) or {}
    if not held and not gpu.foreign and len(starting) == 1 and gpu.allocatable_percent <= 100:
        (worker,) = starting.values()
        if worker.share_percent <= gpu.allocatable_percent:
            return  # alone on a GPU without overcommitment, it has its whole quota
    percent, paused_percent, active = gpu.foreign_percent, 0, len(gpu.foreign)
    tenants = [foreign_tenant(foreign, gpu) for foreign in gpu.foreign]
    for key, worker in (*held.items(), *starting.items()):
        job = started.get(key) or holdings.jobs[key]
        if job.state in _PAUSED and key not in resuming:
            paused_percent += worker.share_percent
            if job.state is JobState.PAUSED:
                tenants.append(paused_tenant(job, gpu, worker.share_percent))
        else:
            percent += worker.share_percent
            active += 1
            tenants.append(tenant_of(job, gpu, worker.share_percent))
    names = ", ".join(sorted(tenant.key for tenant in tenants))
    # A node that offers less than before still has its jobs: what they hold does not change when one resumes.
    if starting:
        _check_offered(gpu, percent + paused_percent, names)
    if starting or active > 1:
        _check_active(gpu, percent, names)
    _check_tenants(gpu, tenants)
    if gpu.enforcement is Enforcement.MPS and starting:
        _check_mps(gpu, {**held, **starting}, holdings, starting)


def _check_mps(
    gpu: GPU, on_gpu: Mapping[str, WorkerPlacement], holdings: Holdings, starting: Collection[str]
) -> None:
    """Check what MPS holds there: its limit is the largest share, and its server takes a limited number of clients."""
    shares = {
        key: worker.share_percent if key in starting else _percent_on(gpu, holdings.jobs[key])
        for key, worker in on_gpu.items()
    }
    demanding = [key for key in shares if holdings.jobs[key].demand.minimum_enforcement is Enforcement.MPS]
    shares |= {foreign.key: foreign.share_percent for foreign in gpu.foreign}
    if len(shares) > MOST_CLIENTS:
        raise InvalidPlan(f"{gpu.uuid} would have {len(shares)} clients of MPS, which takes {MOST_CLIENTS}")
    for key in demanding:
        for other, share_percent in shares.items():
            if share_percent > shares[key] and (key in starting or other in starting):
                raise InvalidPlan(
                    f"job {key} demands MPS and has {shares[key]} percent of {gpu.uuid}, where {other} has {share_percent}: MPS "
                    "would limit both to the larger share"
                )


def _percent_on(gpu: GPU, job: Job) -> int:
    """Return what a job holds of a GPU. A node may report two of its workers there."""
    return sum(worker.share_percent for worker in job.placement if gpu.uuid in worker.gpus)


def _check_offered(gpu: GPU, percent: int, names: str) -> None:
    if percent > gpu.allocatable_percent:
        raise InvalidPlan(
            f"{gpu.uuid} offers {gpu.allocatable_percent} percent and is promised {percent} to {names}"
        )


def _check_active(gpu: GPU, percent: int, names: str) -> None:
    most = gpu.allocatable_percent if gpu.active_percent is None else gpu.active_percent
    if percent > most:
        raise InvalidPlan(f"{gpu.uuid} lets {most} percent take turns and is promised {percent} to {names}")


def _check_tenants(gpu: GPU, tenants: list[Tenant]) -> None:
    names = ", ".join(sorted(tenant.key for tenant in tenants))
    needed_bytes = tightest_bytes(tenants, gpu.lane_rules)
    if needed_bytes > gpu.allocatable_bytes:
        raise InvalidPlan(
            f"{gpu.uuid} has {gpu.allocatable_bytes} bytes for jobs, and {names} need {needed_bytes} at least"
        )
    if len(tenants) > 1 and any(tenant.exclusive for tenant in tenants):
        raise InvalidPlan(f"{gpu.uuid} would be held by one job alone, but {names} are on it")
    spanning = sum(tenant.spans_gpus for tenant in tenants)
    if 0 < gpu.lane_rules.max_lanes < spanning:
        raise InvalidPlan(
            f"{gpu.uuid} has {gpu.lane_rules.max_lanes} lanes for {spanning} jobs on several GPUs: {names}"
        )
