"""Which job holds which share of each GPU, kept from one cycle to the next; the free percent of every GPU in a view is indexed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from laneway.lanes import MemoryUsage, Tenant, fits
from laneway.scheduling.gpus.allocation import Allocation, AllocationStatus
from laneway.scheduling.gpus.free_index import FreeIndex
from laneway.scheduling.gpus.host_limits import NO_LIMITS, HostLimits, Left
from laneway.scheduling.gpus.mps_clients import MPSClient, demands_mps
from laneway.scheduling.gpus.numbering import Pool, grouped, in_order, interned
from laneway.scheduling.gpus.usable import UsableGPUs
from laneway.scheduling.gpus.views import FUTURE_IDLE, IDLE, Level, TrackedView, View
from laneway.scheduling.model.gpu_class import GPUClass, class_of
from laneway.scheduling.model.host_resources import HostResources, add, workers_within
from laneway.scheduling.model.plan import PreemptionAction
from laneway.scheduling.model.snapshot import GPU, Job, JobState, Node, WorkerPlacement
from laneway.scheduling.model.tenants import foreign_tenant, paused_tenant, tenant_of

_IDLE_DECISIONS = 1024
"""Cycles after which an unused view is dropped."""

_FAR_BEHIND = 4096
"""Changes of GPUs after which an unused view is brought up to date all the same."""

_CAUGHT_UP_AT_ONCE = 1024
"""The most of these changes that one cycle applies, so that no cycle pays for all of them."""


_ALLOCATED, _RELEASING, _PIPELINED = (
    AllocationStatus.ALLOCATED,
    AllocationStatus.RELEASING,
    AllocationStatus.PIPELINED,
)

_ACTIONS = {JobState.PAUSING: PreemptionAction.PAUSE, JobState.OFFLOADING: PreemptionAction.OFFLOAD}
"""What happens to releasing jobs that are not evicted."""


class Allocations:
    """The allocations on every GPU; GPUs are numbered in the order of (node, index, uuid)."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(sorted(nodes, key=lambda node: node.name))
        numbered = [(number, gpu) for number, node in enumerate(self.nodes) for gpu in in_order(node.gpus)]
        self.gpus: list[GPU] = [gpu for _, gpu in numbered]
        self.node_numbers: tuple[int, ...] = tuple(number for number, _ in numbered)
        self.classes: tuple[GPUClass, ...] = interned(class_of(gpu) for gpu in self.gpus)
        self.number = {gpu.uuid: number for number, gpu in enumerate(self.gpus)}
        self.gpus_of_node: tuple[tuple[int, ...], ...] = grouped(self.node_numbers, len(self.nodes))
        pools = [Pool(*each) for each in zip(self.node_numbers, self.classes, strict=True)]
        self.pools: tuple[Pool, ...] = tuple(dict.fromkeys(pools))
        numbers = {pool: number for number, pool in enumerate(self.pools)}
        self._pool_numbers = tuple(numbers[pool] for pool in pools)
        self._usable = UsableGPUs(self.classes, self.gpus_of_node)
        self._usable.note(range(len(self.nodes)), self.nodes, self.gpus)
        self.usable = self._usable.numbers
        """Numbers of the GPUs that may be given to jobs."""

        self.of_job: dict[str, Allocation] = {}
        self.held_percent: Counter[str] = Counter()
        """By namespace: the percent of all GPUs together that its jobs hold."""

        self.frees = 0
        """Counts the changes that may free GPUs or memory; while it stands still, a job that did not fit does not fit."""

        self._on: list[dict[str, tuple[int, Allocation]]] = [{} for _ in self.gpus]
        self._on_node: list[dict[str, tuple[int, Allocation]]] = [{} for _ in self.nodes]
        """By node and job: the workers there, of jobs whose pods request anything."""

        self._offered: list[Left | None] = [_amounts(node.host) for node in self.nodes]
        self._limits_hosts = any(each is not None for each in self._offered)
        self._limits = [
            (
                gpu.allocatable_percent if gpu.active_percent is None else gpu.active_percent,
                gpu.allocatable_percent,
            )
            for gpu in self.gpus
        ]
        self.supports_pausing = any(most_active < most for most_active, most in self._limits)
        """Whether GPUs can hold paused jobs beside those that take turns."""

        self._foreign_percent = [gpu.foreign_percent for gpu in self.gpus]
        self._empty_percent = [
            max(0, most_active - foreign)
            for (most_active, _), foreign in zip(self._limits, self._foreign_percent, strict=True)
        ]
        """The free percent of a GPU that no job holds. Paused jobs are held in addition to what may take turns, so this is
        the limit."""

        self._tracked_views: dict[View, TrackedView] = {}
        self._touched: list[int] = []
        """Numbers of the GPUs that changed, in order of time; changes that every view has seen are dropped."""

    @property
    def usable_classes(self) -> tuple[GPUClass, ...]:
        """The classes of the GPUs that may be given to jobs, rising."""
        return self._usable.classes

    def usable_percent(self) -> tuple[list[int], list[int]]:
        """Return, by pool, the time of the usable GPUs, and what they offer beyond it, in percent of a GPU: an overcommitted GPU has no
        more time than another one."""
        offered, beyond = [0] * len(self.pools), [0] * len(self.pools)
        for number in self.usable:
            pool, percent = self._pool_numbers[number], self._empty_percent[number]
            offered[pool] += min(percent, 100)
            beyond[pool] += max(0, percent - 100)
        return offered, beyond

    def renew(self, nodes: tuple[Node, ...]) -> bool:
        """Apply changes of the nodes, which are ordered by name.

        Returns False, and changes nothing, if a node has other GPUs than before: then everything must be counted again.
        """
        changed = [
            (number, node)
            for number, (before, node) in enumerate(zip(self.nodes, nodes, strict=False))
            if node is not before and node != before
        ]
        if len(nodes) != len(self.nodes) or not all(self._has_same_gpus(*each) for each in changed):
            return False
        self.nodes = nodes
        for number, node in changed:
            self._offered[number] = _amounts(node.host)
            self._limits_hosts |= node.host is not None
            for gpu in node.gpus:
                place = self.number[gpu.uuid]
                self.gpus[place] = gpu
                self._foreign_percent[place] = gpu.foreign_percent
                self._empty_percent[place] = max(0, self._limits[place][0] - gpu.foreign_percent)
        if self._usable.note((number for number, _ in changed), self.nodes, self.gpus):
            self._tracked_views.clear()
            self._touched.clear()
        else:
            places = [place for number, _ in changed for place in self.gpus_of_node[number]]
            self._touched.extend(places)
            for tracked in self._tracked_views.values():
                for place in places:
                    tracked.memory_usage.pop(place, None)
        self.frees += 1
        return True

    def _has_same_gpus(self, number: int, node: Node) -> bool:
        places = self.gpus_of_node[number]
        return (
            node.name == self.nodes[number].name
            and len(node.gpus) == len(places)
            and all(
                gpu.uuid == self.gpus[place].uuid
                and gpu.index == self.gpus[place].index
                and class_of(gpu) == self.classes[place]
                for gpu, place in zip(in_order(node.gpus), places, strict=True)
            )
        )

    def usable_on(self, node: int, gpu_class: GPUClass) -> tuple[int, ...]:
        """Return the usable GPUs of a node and class, in rising order."""
        return self._usable.on(node, gpu_class)

    def track(self, view: View) -> TrackedView:
        """Return a view with its index, as of the last :meth:`index` call for it."""
        found = self._tracked_views.get(view)
        if found is None:
            free = {number: self._free_percent(number, view) for number in sorted(self.usable)}
            index = FreeIndex(self.classes, self.node_numbers, self._pool_numbers, free)
            limits = HostLimits(len(self.nodes))
            found = self._tracked_views[view] = TrackedView(view, index, limits, len(self._touched))
        found.idle_decisions = 0
        return found

    def index(self, tracked: TrackedView) -> FreeIndex:
        """Return what is free in a view now.

        The index catches up here with the changes since the last call, so an unused view costs nothing.
        """
        if tracked.seen < len(self._touched) or tracked.touched:
            self._catch_up(tracked, len(self._touched))
        return tracked.index

    def drop_unused_views(self) -> None:
        """Drop the views that were not used in many cycles; called once a cycle."""
        for tracked in list(self._tracked_views.values()):
            tracked.idle_decisions += 1
            if tracked.idle_decisions > _IDLE_DECISIONS:
                del self._tracked_views[tracked.view]
        self._catch_up_one()

    def _catch_up(self, tracked: TrackedView, to: int) -> None:
        """Apply changes to an index, up to a position in the list of changed GPUs."""
        tracked.touched.update(self._touched[tracked.seen : to])
        view, free, home = tracked.view, tracked.index.free, tracked.index.home
        for number in tracked.touched:
            index = home[number]
            if index is not None:
                before = free[number]
                after = free[number] = self._free_percent(number, view)
                if after != before:
                    index.move(number, before, after)
                    tracked.index.of_pool[self._pool_numbers[number]] += after - before
        if tracked.host_limits.in_use:
            tracked.host_limits.note(map(self.node_numbers.__getitem__, tracked.touched))
        tracked.touched.clear()
        tracked.seen = to

    def _catch_up_one(self) -> None:
        """Apply some changes to the view that is furthest behind, if it is far behind."""
        tracked = min(self._tracked_views.values(), key=lambda tracked: tracked.seen, default=None)
        if tracked is None:
            self._touched.clear()
        elif len(self._touched) - tracked.seen > _FAR_BEHIND:
            self._catch_up(tracked, tracked.seen + _CAUGHT_UP_AT_ONCE)
        elif tracked.seen > _FAR_BEHIND:
            behind = tracked.seen
            del self._touched[:behind]
            for each in self._tracked_views.values():
                each.seen -= behind

    def add(
        self, job: Job, placement: tuple[WorkerPlacement, ...], status: AllocationStatus, level: Level | None
    ) -> None:
        """Let a job hold its placement, and nothing else."""
        before, action = self.of_job.get(job.key), _ACTIONS.get(job.state, PreemptionAction.EVICT)
        if (
            before is not None
            and before.status is status
            and before.action is action
            and before.placement == placement
            and before.job.demand.requests == job.demand.requests
        ):
            was, before.job = before.job, job
            if was.profile != job.profile or (
                status is AllocationStatus.PAUSED and was.state is not job.state
            ):
                self.frees += 1
                self._touch(before)
            if before.level != level:
                self._change_level(before, level)
            return
        self.remove(job.key)
        on_gpu: dict[int, int] = {}
        for worker in placement:
            for uuid in worker.gpus:
                number = self.number.get(uuid)
                if number is not None:  # else its node has left the cluster
                    # A node may report two workers on one GPU.
                    on_gpu[number] = on_gpu.get(number, 0) + worker.share_percent
        shares = tuple(on_gpu.items())
        percent = sum(percent for _, percent in shares)
        on_nodes = self._workers_on(placement) if job.demand.requests else ()
        entry = Allocation(job, placement, status, shares, percent, on_nodes, level, action)
        self.of_job[job.key] = entry
        for number, share_percent in shares:
            self._on[number][job.key] = (share_percent, entry)
        for node, workers in on_nodes:
            self._on_node[node][job.key] = (workers, entry)
        self.held_percent[job.namespace] += entry.percent
        self._touch(entry)

    def gpus_of(self, key: str) -> tuple[int, ...]:
        """Return the numbers of the GPUs that a job holds."""
        entry = self.of_job.get(key)
        return () if entry is None else tuple(number for number, _ in entry.shares)

    def remove(self, key: str) -> None:
        """Remove a job's allocation."""
        entry = self.of_job.pop(key, None)
        if entry is not None:
            for number, _ in entry.shares:
                del self._on[number][key]
            for node, _ in entry.on_nodes:
                del self._on_node[node][key]
            self.held_percent[entry.job.namespace] -= entry.percent
            self.frees += 1
            self._touch(entry)

    def release(self, key: str, action: PreemptionAction = PreemptionAction.EVICT) -> None:
        """Mark a job as releasing. It is an assumption of one cycle, so it does not count as freeing anything."""
        entry = self.of_job[key]
        entry.status, entry.action = AllocationStatus.RELEASING, action
        self._touch(entry)

    def try_status(self, key: str, status: AllocationStatus, action: PreemptionAction) -> None:
        """Change a job's status in FUTURE_IDLE only.

        No other view may be read until the status is back to what it was, or :meth:`release` confirms it.
        """
        entry = self.of_job[key]
        entry.status, entry.action = status, action
        self.track(FUTURE_IDLE).touch(entry.shares)

    def can_resume(self, key: str, view: View = IDLE) -> bool:
        """Whether a paused job can take turns again where it is: the others there that count leave it turns and memory."""
        entry = self.of_job[key]
        if any(uuid not in self.number for worker in entry.placement for uuid in worker.gpus):
            return False  # its node or GPU has left the cluster
        for number, percent in entry.shares:
            others = [
                held
                for held in self._on[number].values()
                if held[1].status is not AllocationStatus.PAUSED and held[1].counts(view)
            ]
            active = self._foreign_percent[number] + sum(held for held, _ in others)
            gpu = self.gpus[number]
            tenants = [tenant for tenant in self.tenants(number, view) if tenant.key != key]
            if active + percent > self._limits[number][0] or not fits(
                gpu.allocatable_bytes, tenants, tenant_of(entry.job, gpu, percent), gpu.lane_rules
            ):
                return False
        return True

    def resume(self, key: str) -> None:
        """Mark a paused job as taking turns. Like :meth:`release`, it is an assumption of one cycle."""
        entry = self.of_job[key]
        entry.status = AllocationStatus.ALLOCATED
        self._touch(entry)

    def host_limits(
        self, tracked: TrackedView, requests: HostResources, gpus_per_worker: int
    ) -> Mapping[int, int]:
        """Return, by node, how many such workers its host resources allow, where its free GPUs would allow more."""
        if not requests or not self._limits_hosts:
            return NO_LIMITS
        free = self.index(tracked).free

        def look(node: int) -> tuple[Left | None, int]:
            gpus = sum(free[number] > 0 for number in self.gpus_of_node[node])
            return self.left_on(node, tracked.view), gpus

        return tracked.host_limits.of(requests, gpus_per_worker, look)

    def most_workers(self, node: int, requests: HostResources) -> float:
        """Return how many workers with these requests a node could take if no job were there."""
        return _workers_within(requests, self._offered[node])

    def most_workers_alone(self, node: int, requests: HostResources) -> float:
        """Return how many workers with these requests a node could take if no pod at all were there."""
        return _workers_within(requests, self.left_alone(node))

    def left_alone(self, node: int) -> Left | None:
        """Return what a node would have if no pod at all were there."""
        capacity = self.nodes[node].host_capacity
        return self._offered[node] if capacity is None else _amounts(capacity)

    def offered(self, node: int) -> Left | None:
        """Return what a node has for jobs beside the other pods; less than 0 where these request more than there is."""
        return self._offered[node]

    def left_on(self, node: int, view: View) -> Left | None:
        """Return what of it no job takes in a view; less than 0 where more is taken than there is."""
        offered, held = self._offered[node], self._on_node[node]
        if offered is None or not held:
            return offered
        left = dict(offered)
        releasing: dict[str, int] = {}
        pipelined: dict[str, int] = {}
        for workers, entry in held.values():
            requests, status = entry.job.demand.requests, entry.status
            if status is _PIPELINED:
                add(pipelined, requests, workers)
            elif status is _RELEASING and entry.action is PreemptionAction.EVICT:
                add(releasing, requests, workers)
            elif status is _RELEASING or view.counts(entry.level):
                add(left, requests, -workers)  # a paused job keeps its pods
        if pipelined or (view.idle and releasing):
            for name in left:
                taken = max(releasing.get(name, 0) if view.idle else 0, pipelined.get(name, 0))
                left[name] -= taken
        return left

    def releasing_for(self, job: Job, placement: Iterable[WorkerPlacement]) -> tuple[str, ...]:
        """Return the jobs that are releasing what a job needs there: these GPUs, or what its pods request of their nodes."""
        return self._in_the_way(job, placement, lambda entry: entry.status is AllocationStatus.RELEASING)

    def below(self, level: Level, job: Job, placement: Iterable[WorkerPlacement]) -> tuple[str, ...]:
        """Return the jobs of larger levels that hold some of what a job needs there."""
        return self._in_the_way(
            job,
            placement,
            lambda entry: (
                entry.status in (AllocationStatus.ALLOCATED, AllocationStatus.PAUSED)
                and entry.level is not None
                and entry.level > level
            ),
        )

    def sharers(self, number: int, view: View) -> list[Job]:
        """Return the jobs that count on a GPU in a view and take turns there, by key."""
        on = self._on[number]
        return [
            on[key][1].job
            for key in sorted(on)
            if on[key][1].counts(view) and on[key][1].status is not AllocationStatus.PAUSED
        ]

    def tenants(self, number: int, view: View) -> list[Tenant]:
        """Return the tenants whose memory counts on a GPU in a view."""
        gpu = self.gpus[number]
        tenants = [foreign_tenant(foreign, gpu) for foreign in gpu.foreign]
        for percent, entry in self._on[number].values():
            paused = entry.status is AllocationStatus.PAUSED
            releasing = entry.status is AllocationStatus.RELEASING and not view.idle
            if (paused and entry.job.state is JobState.OFFLOADED) or (
                releasing and entry.action is not PreemptionAction.PAUSE
            ):
                continue
            if releasing or (paused and entry.counts(view)):
                tenants.append(paused_tenant(entry.job, gpu, percent))
            elif entry.counts(view):
                tenants.append(tenant_of(entry.job, gpu, percent))
        return tenants

    def mps_clients(self, number: int, view: View) -> list[MPSClient]:
        """Return the containers on a GPU that count in a view: a job that keeps its pod, paused or not, counts."""
        gpu = self.gpus[number]
        clients = [MPSClient(foreign.key, foreign.share_percent, False) for foreign in gpu.foreign]
        for percent, entry in self._on[number].values():
            stays = entry.status is _RELEASING and entry.action is not PreemptionAction.EVICT
            if stays or entry.counts(view):
                clients.append(MPSClient(entry.job.key, percent, demands_mps(entry.job.demand)))
        return clients

    def memory_usage(self, number: int, view: View) -> MemoryUsage:
        """Return the total memory that counts on a GPU in a view."""
        memory_usage = self.track(view).memory_usage
        found = memory_usage.get(number)
        if found is None:
            found = memory_usage[number] = MemoryUsage.of(
                self.tenants(number, view), self.gpus[number].lane_rules
            )
        return found

    def _in_the_way(
        self, job: Job, placement: Iterable[WorkerPlacement], wanted: Callable[[Allocation], bool]
    ) -> tuple[str, ...]:
        held = [self._on[self.number[uuid]] for worker in placement for uuid in worker.gpus]
        if job.demand.requests:
            held += [self._on_node[node] for node, _ in self._workers_on(placement)]
        return tuple(sorted({key for there in held for key, (_, entry) in there.items() if wanted(entry)}))

    def _workers_on(self, placement: Iterable[WorkerPlacement]) -> tuple[tuple[int, int], ...]:
        """Return the nodes of a placement whose GPUs are in the cluster, and the workers on each."""
        known = (self.number[uuid] for worker in placement for uuid in worker.gpus[:1] if uuid in self.number)
        return tuple(Counter(self.node_numbers[number] for number in known).items())

    def _change_level(self, entry: Allocation, level: Level | None) -> None:
        """Change which jobs may preempt a job."""
        before, entry.level = entry.level, level
        for tracked in self._tracked_views.values():
            if tracked.view.counts(before) != tracked.view.counts(level):
                tracked.touch(entry.shares)

    def _touch(self, entry: Allocation) -> None:
        self._touched.extend([number for number, _ in entry.shares])
        for tracked in self._tracked_views.values():
            if tracked.memory_usage:
                for number, _ in entry.shares:
                    tracked.memory_usage.pop(number, None)

    def _free_percent(self, number: int, view: View) -> int:
        """Return what is free of a GPU; 0 where more is held than it offers."""
        held = self._on[number]
        if not held:
            return self._empty_percent[number]
        active, paused, releasing, pipelined = self._foreign_percent[number], 0, 0, 0
        now, below = view
        for percent, entry in held.values():
            status = entry.status
            if status is _ALLOCATED:
                if below is None or entry.level is None or entry.level <= below:
                    active += percent
            elif status is _PIPELINED:
                pipelined += percent
            elif status is _RELEASING:
                releasing += percent
                if not now and entry.action is not PreemptionAction.EVICT:
                    paused += percent
            elif below is None or entry.level is None or entry.level <= below:
                paused += percent
        active += releasing if now and releasing > pipelined else pipelined
        most_active, most = self._limits[number]
        return max(0, min(most_active, most - paused) - active)


def _amounts(resources: HostResources | None) -> Left | None:
    return None if resources is None else dict(resources.amounts)


def _workers_within(requests: HostResources, left: Left | None) -> float:
    return math.inf if left is None or not requests else workers_within(requests, left)
