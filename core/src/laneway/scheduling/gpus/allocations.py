"""Which job holds which share of each GPU, kept from one cycle to the next; the free percent of every GPU in a view is indexed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from laneway.lanes import MemoryUsage, Tenant, fits
from laneway.scheduling.gpus.allocation import Allocation, AllocationStatus
from laneway.scheduling.gpus.domains import Domains
from laneway.scheduling.gpus.holders import Held, free_percent, mps_clients_of, sharers_of, tenants_with
from laneway.scheduling.gpus.host_holdings import HostHoldings
from laneway.scheduling.gpus.host_limits import NO_LIMITS, Left
from laneway.scheduling.gpus.mps_clients import MPSClient
from laneway.scheduling.gpus.numbering import Pool, grouped, in_order, interned
from laneway.scheduling.gpus.tracked_views import TrackedViews
from laneway.scheduling.gpus.usable import UsableGPUs
from laneway.scheduling.gpus.views import FUTURE_IDLE, IDLE, Level, TrackedView, View
from laneway.scheduling.model.gpu_class import GPUClass, class_of
from laneway.scheduling.model.host_resources import HostResources
from laneway.scheduling.model.plan import PreemptionAction
from laneway.scheduling.model.snapshot import GPU, Job, JobState, Node, WorkerPlacement
from laneway.scheduling.model.tenants import tenant_of

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
        """By namespace: the percent of all GPUs together that its jobs hold; of a GPU that one holds exclusively, 100."""

        self.frees = 0
        """Counts the changes that may free GPUs or memory; while it stands still, a job that did not fit does not fit."""

        self._on: list[dict[str, Held]] = [{} for _ in self.gpus]
        self.hosts = HostHoldings(self.nodes)
        self.domains = Domains(self.nodes)
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

        self.views = TrackedViews(
            self.classes,
            self.node_numbers,
            self._pool_numbers,
            len(self.nodes),
            self.usable,
            self._free_percent,
        )

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
        if any(node.domains != self.nodes[number].domains for number, node in changed):
            self.domains = Domains(nodes)
        self.nodes = nodes
        for number, node in changed:
            self.hosts.renew(number, node)
            for gpu in node.gpus:
                place = self.number[gpu.uuid]
                self.gpus[place] = gpu
                self._foreign_percent[place] = gpu.foreign_percent
                self._empty_percent[place] = max(0, self._limits[place][0] - gpu.foreign_percent)
        if self._usable.note((number for number, _ in changed), self.nodes, self.gpus):
            self.views.clear()
        else:
            self.views.touch([place for number, _ in changed for place in self.gpus_of_node[number]])
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
                self.views.touch(before.gpus)
            if before.level != level:
                was_level, before.level = before.level, level
                self.views.change_level(was_level, level, before.shares)
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
        self.hosts.add(entry)
        self.held_percent[job.namespace] += _of_whole_gpus(entry)
        self.views.touch(entry.gpus)

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
            self.hosts.remove(entry)
            self.held_percent[entry.job.namespace] -= _of_whole_gpus(entry)
            self.frees += 1
            self.views.touch(entry.gpus)

    def release(self, key: str, action: PreemptionAction = PreemptionAction.EVICT) -> None:
        """Mark a job as releasing. It is an assumption of one cycle, so it does not count as freeing anything."""
        entry = self.of_job[key]
        entry.status, entry.action = AllocationStatus.RELEASING, action
        self.views.touch(entry.gpus)

    def try_status(self, key: str, status: AllocationStatus, action: PreemptionAction) -> None:
        """Change a job's status in FUTURE_IDLE only.

        No other view may be read until the status is back to what it was, or :meth:`release` confirms it.
        """
        entry = self.of_job[key]
        entry.status, entry.action = status, action
        self.views.track(FUTURE_IDLE).touch(entry.shares)

    def can_resume(self, key: str, view: View = IDLE) -> bool:
        """Whether a paused job can take turns again where it is: the others there that count leave it turns and memory.

        Without others, a share that is larger than what the node offers by now does no harm.
        """
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
            if (active and active + percent > self._limits[number][0]) or not fits(
                gpu.allocatable_bytes, tenants, tenant_of(entry.job, gpu, percent), gpu.lane_rules
            ):
                return False
        return True

    def turns_percent(self, number: int, view: View) -> int:
        """Return the shares of all that count on a GPU in a view and take turns there, foreign tenants included."""
        return self._foreign_percent[number] + sum(
            percent
            for percent, entry in self._on[number].values()
            if entry.status is not AllocationStatus.PAUSED and entry.counts(view)
        )

    def resume(self, key: str) -> None:
        """Mark a paused job as taking turns. Like :meth:`release`, it is an assumption of one cycle."""
        entry = self.of_job[key]
        entry.status = AllocationStatus.ALLOCATED
        self.views.touch(entry.gpus)

    def host_limits(
        self, tracked: TrackedView, requests: HostResources, gpus_per_worker: int
    ) -> Mapping[int, int]:
        """Return, by node, how many such workers its host resources allow, where its free GPUs would allow more."""
        if not requests or not self.hosts.limits:
            return NO_LIMITS
        free = self.views.index(tracked).free

        def look(node: int) -> tuple[Left | None, int]:
            gpus = sum(free[number] > 0 for number in self.gpus_of_node[node])
            return self.hosts.left_on(node, tracked.view), gpus

        return tracked.host_limits.of(requests, gpus_per_worker, look)

    def hosts_left(self, tracked: TrackedView) -> Sequence[Left | None] | None:
        """Return, by number of a node, what it has left for the requests of jobs' pods (None: no limit); None if no node limits
        them."""
        if not self.hosts.limits:
            return None
        self.views.index(tracked)
        return tracked.hosts_left.of(lambda node: self.hosts.left_on(node, tracked.view))

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
        return sharers_of(self._on[number], view)

    def tenants(self, number: int, view: View) -> list[Tenant]:
        """Return the tenants whose memory counts on a GPU in a view."""
        return tenants_with(self.gpus[number], self._on[number].values(), view)

    def mps_clients(self, number: int, view: View) -> list[MPSClient]:
        """Return the containers on a GPU that count in a view."""
        return mps_clients_of(self.gpus[number], self._on[number].values(), view)

    def memory_usage(self, number: int, view: View) -> MemoryUsage:
        """Return the total memory that counts on a GPU in a view."""
        memory_usage = self.views.track(view).memory_usage
        found = memory_usage.get(number)
        if found is None:
            found = memory_usage[number] = MemoryUsage.of(
                self.tenants(number, view), self.gpus[number].lane_rules
            )
        return found

    def _in_the_way(
        self, job: Job, placement: Iterable[WorkerPlacement], wanted: Callable[[Allocation], bool]
    ) -> tuple[str, ...]:
        held: list[Mapping[str, Held]] = [
            self._on[self.number[uuid]] for worker in placement for uuid in worker.gpus
        ]
        if job.demand.requests:
            held += [self.hosts.on(node) for node, _ in self._workers_on(placement)]
        return tuple(sorted({key for there in held for key, (_, entry) in there.items() if wanted(entry)}))

    def _workers_on(self, placement: Iterable[WorkerPlacement]) -> tuple[tuple[int, int], ...]:
        """Return the nodes of a placement whose GPUs are in the cluster, and the workers on each."""
        known = (self.number[uuid] for worker in placement for uuid in worker.gpus[:1] if uuid in self.number)
        return tuple(Counter(self.node_numbers[number] for number in known).items())

    def _free_percent(self, number: int, view: View) -> int:
        held = self._on[number]
        if not held:
            return self._empty_percent[number]
        return free_percent(self._foreign_percent[number], held.values(), self._limits[number], view)


def _of_whole_gpus(entry: Allocation) -> int:
    """Return the percent of GPUs that a job holds. For exclusive use it requests more than 100 percent of a GPU on which jobs could
    share."""
    return sum(min(percent, 100) for _, percent in entry.shares)
