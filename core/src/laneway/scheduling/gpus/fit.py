"""Free capacity as placement policies see it, and which GPUs a worker fits on. Policies only read; actions change allocations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from laneway.lanes import Refusal, RefusalReason, refusal
from laneway.scheduling.gpus.allocations import Allocations
from laneway.scheduling.gpus.consolidation import fewest_nodes_if_empty
from laneway.scheduling.gpus.domains import Domains
from laneway.scheduling.gpus.free_index import ClassIndex, FreeIndex
from laneway.scheduling.gpus.host_limits import NO_LIMITS
from laneway.scheduling.gpus.mps_clients import MPSClient, MPSClients, demands_mps, mps_matters
from laneway.scheduling.gpus.node_states import NodeStates
from laneway.scheduling.gpus.views import TrackedView
from laneway.scheduling.gpus.worker_check import memory_usage, worker_check
from laneway.scheduling.model.gpu_class import GPUClass, lanes_matter, suitable
from laneway.scheduling.model.shared_speeds import SpeedsByModel
from laneway.scheduling.model.snapshot import GPU, Demand, Job, Node
from laneway.scheduling.model.tenants import tenant_of

_Suitable = tuple[tuple[tuple[GPUClass, int], ...], tuple[ClassIndex, ...], int]
"""Of a demand: the classes that suit it, each with the share needed; their indexes; the least of these shares."""


class FreeCapacity:
    """What is free in one view of the allocations: IDLE, FUTURE_IDLE, or with some levels preempted."""

    def __init__(
        self,
        allocations: Allocations,
        tracked: TrackedView,
        avoided: Mapping[str, frozenset[int]],
        speeds: SpeedsByModel | None = None,
        *,
        unshared: bool = False,
    ) -> None:
        """Read a view.

        Args:
            allocations: read only.
            tracked: what counts as held.
            avoided: by job, the numbers of the nodes that it is not to be placed on now.
            speeds: what is known of jobs that share GPUs; None: nothing.
            unshared: count only GPUs on which the shares of all that take turns add up to at most 100 percent.
        """
        self._unshared = unshared
        self.tracked = tracked
        self.speeds = speeds or SpeedsByModel()
        self._allocations = allocations
        self._view = tracked.view
        self._avoided = avoided
        self._suitable: dict[Demand, _Suitable] = {}
        self._fewest: dict[object, int] = {}
        self._asked_of: Job | None = None
        self._found: _Suitable = ((), (), 0)

    def unshared(self) -> FreeCapacity:
        """Return the same view, in which no job joins others: the shares on a GPU add up to at most 100 percent."""
        return FreeCapacity(self._allocations, self.tracked, self._avoided, self.speeds, unshared=True)

    def is_unshared(self, gpu: GPU, share_percent: int) -> bool:
        """Whether the shares on a GPU add up to at most 100 percent with a worker's share."""
        number = self._allocations.number[gpu.uuid]
        return self._index.free[number] >= _free_unshared(self._allocations.classes[number], share_percent)

    @property
    def domains(self) -> Domains:
        """The racks, zones and other domains of the nodes."""
        return self._allocations.domains

    @property
    def _index(self) -> FreeIndex:
        return self._allocations.views.index(self.tracked)

    def choices(self, job: Job) -> tuple[tuple[GPUClass, int], ...]:
        """Return the classes of usable GPUs that suit a job, each with the share needed; the least memory first."""
        return self._look_up(job)[0]

    def free_percent(self, gpu: GPU) -> int:
        """Return what is free of a GPU."""
        return self._index.free[self._allocations.number[gpu.uuid]]

    def held_percent(self, namespace: str) -> int:
        """Return what the jobs of a namespace hold of all GPUs together, the releasing ones included."""
        return self._allocations.held_percent[namespace]

    def node(self, node: int) -> Node:
        """Return a node by its number."""
        return self._allocations.nodes[node]

    def node_number(self, gpu: GPU) -> int:
        """Return the number of a GPU's node."""
        return self._allocations.node_numbers[self._allocations.number[gpu.uuid]]

    def gpu(self, uuid: str) -> GPU:
        """Return a GPU by its uuid."""
        return self._allocations.gpus[self._allocations.number[uuid]]

    def sharers(self, gpu: GPU) -> list[Job]:
        """Return the jobs that hold a part of a GPU and take turns there, by key."""
        return self._allocations.sharers(self._allocations.number[gpu.uuid], self._view)

    def fullest(self, job: Job, gpu_class: GPUClass, share_percent: int) -> Iterator[GPU]:
        """Yield the GPUs of a class that can take a worker of the job, those with the least free first."""
        closed = self._closed(job)
        fits = self._check(job, gpu_class, share_percent)
        for number in self._index.fullest(gpu_class, self._needed(gpu_class, share_percent)):
            if self._allocations.node_numbers[number] not in closed and (fits is None or fits(number)):
                yield self._allocations.gpus[number]

    def emptiest(self, job: Job, gpu_class: GPUClass, share_percent: int) -> Iterator[GPU]:
        """Yield what :meth:`fullest` does, the most free first."""
        closed = self._closed(job)
        fits = self._check(job, gpu_class, share_percent)
        for number in self._index.emptiest(gpu_class, self._needed(gpu_class, share_percent)):
            if self._allocations.node_numbers[number] not in closed and (fits is None or fits(number)):
                yield self._allocations.gpus[number]

    def nodes_by_gpus(self, job: Job, gpu_class: GPUClass, share_percent: int) -> Mapping[int, Sequence[int]]:
        """Return, by number of GPUs of a class that can take a worker of the job, the numbers of the nodes.

        Of a node whose CPUs, memory or other resources are short, only as many GPUs count as its workers would have.
        """
        each, limits = job.demand.gpus_per_worker, self.host_limits(job)
        if not (lanes_matter(job.demand, gpu_class) or mps_matters(gpu_class, share_percent)):
            found = self._index.counts(gpu_class, self._needed(gpu_class, share_percent))
            nodes_by_gpus = found.limited(limits, each) if limits else found.nodes
            avoided = self.avoided(job)
            if not avoided:
                return nodes_by_gpus
            left = {
                gpus: [node for node in nodes if node not in avoided] for gpus, nodes in nodes_by_gpus.items()
            }
            return {gpus: nodes for gpus, nodes in left.items() if nodes}
        counts: dict[int, int] = {}
        for gpu in self.fullest(job, gpu_class, share_percent):
            node = self._allocations.node_numbers[self._allocations.number[gpu.uuid]]
            counts[node] = counts.get(node, 0) + 1
        for node in limits.keys() & counts.keys():
            counts[node] = min(counts[node], limits[node] * each)
        nodes: dict[int, list[int]] = {}
        for node in sorted(counts):
            nodes.setdefault(counts[node], []).append(node)
        return nodes

    def host_limits(self, job: Job) -> Mapping[int, int]:
        """Return, by node, how many of the job's workers its CPUs, memory and other resources allow, where its free GPUs would
        allow more."""
        demand = job.demand
        if not demand.requests:
            return NO_LIMITS
        return self._allocations.host_limits(self.tracked, demand.requests, demand.gpus_per_worker)

    def host_left(self, node: int) -> Mapping[str, int] | None:
        """Return what a node has left for the requests of jobs' pods; None: no limit."""
        return self._allocations.hosts.left_on(node, self._view)

    def hosts_left(self) -> Sequence[Mapping[str, int] | None] | None:
        """Return :meth:`host_left` of every node, by its number; None if no node limits the requests of jobs' pods."""
        return self._allocations.hosts_left(self.tracked)

    def states(self, gpu_class: GPUClass) -> NodeStates:
        """Return the nodes by what is free of their usable GPUs of a class; memory and avoided nodes do not matter here."""
        return self._index.states(gpu_class)

    def gpus_on(self, node: int, job: Job, gpu_class: GPUClass, share_percent: int) -> list[GPU]:
        """Return the GPUs of a node and class that can take a worker of the job, those with the least free first."""
        fits = self._check(job, gpu_class, share_percent)
        free, needed_percent = self._index.free, self._needed(gpu_class, share_percent)
        numbers = [
            number
            for number in self._allocations.usable_on(node, gpu_class)
            if free[number] >= needed_percent and (fits is None or fits(number))
        ]
        numbers.sort(key=free.__getitem__)  # they came by number, and stay so among equals
        gpus = self._allocations.gpus
        return [gpus[number] for number in numbers]

    def free_gpus(self, job: Job) -> int:
        """Return how many GPUs can take a worker of the job."""
        return sum(
            gpus * len(nodes)
            for gpu_class, share_percent in self.choices(job)
            for gpus, nodes in self.nodes_by_gpus(job, gpu_class, share_percent).items()
        )

    def free_sum_percent(self, job: Job) -> int:
        """Return what is free of all suitable GPUs together; avoided nodes count as well."""
        self._allocations.views.index(self.tracked)
        return sum([index.free_sum for index in self._look_up(job)[1]])

    def unshared_sum_percent(self, job: Job) -> int:
        """Return :meth:`free_sum_percent` without what is free only to jobs that join others."""
        return sum(number * percent for percent, number in self._unshared_sizes(job))

    def most_unshared_percent(self, job: Job) -> int:
        """Return :meth:`most_free_percent` without what is free only to jobs that join others."""
        return max((percent for percent, number in self._unshared_sizes(job) if number), default=0)

    def _unshared_sizes(self, job: Job) -> Iterator[tuple[int, int]]:
        """Yield what is free of suitable GPUs to jobs that join no others, and of how many GPUs so much is."""
        self._allocations.views.index(self.tracked)
        choices, indexes, _ = self._look_up(job)
        for (gpu_class, _), index in zip(choices, indexes, strict=True):
            for percent, number in index.sizes.items():
                yield max(0, percent - _free_unshared(gpu_class, 0)), number

    def idle_percent(self) -> Sequence[int]:
        """Return, by pool, what is free of its usable GPUs together."""
        return self._index.of_pool

    def may_fit(self, job: Job, more_percent: int = 0) -> bool:
        """Whether the total free percent, plus ``more_percent``, is at least what the gang needs; else it fits nowhere."""
        needed_percent = _fewest_gpus(job.demand) * self._look_up(job)[2]
        return needed_percent <= more_percent + self.free_sum_percent(job)

    def has_enough_gpus(self, job: Job) -> bool:
        """Whether enough GPUs have the share that a worker needs, be they on avoided nodes; else the gang fits nowhere."""
        self._allocations.views.index(self.tracked)
        missing = _fewest_gpus(job.demand)
        choices, indexes, _ = self._look_up(job)
        for (_, share_percent), index in zip(choices, indexes, strict=True):
            for level, gpus in index.sizes.items():
                if level >= share_percent:
                    missing -= gpus
                    if missing <= 0:
                        return True
        return False

    def most_free_percent(self, job: Job) -> int:
        """Return what is free of the emptiest suitable GPU; avoided nodes count as well."""
        self._allocations.views.index(self.tracked)
        return max([index.most_free for index in self._look_up(job)[1]], default=0)

    def awaited_profile(self, job: Job) -> Refusal | None:
        """Return why a GPU cannot take a worker of the job until tenants there are profiled, the least free GPU first.

        None if there is no such GPU, or if too few GPUs have enough free percent even then.
        """
        choices = self.choices(job)
        by_memory = [gpu_class for gpu_class, _ in choices if lanes_matter(job.demand, gpu_class)]
        if not by_memory or not self.has_enough_gpus(job):
            return None
        avoided, node_numbers = self.avoided(job), self._allocations.node_numbers
        found, gpus = None, 0
        for gpu_class, share_percent in choices:
            for number in self._index.fullest(gpu_class, share_percent):
                if node_numbers[number] in avoided:
                    continue
                gpus += 1
                if (
                    found is None
                    and gpu_class in by_memory
                    and memory_usage(self._allocations, self.tracked, number).unprofiled
                ):
                    why = self._refusal(job, number, share_percent)
                    if why is not None and why.reason is RefusalReason.AWAITING_PROFILE:
                        found = why
                if found is not None and gpus >= job.demand.gpus:
                    return found
        return None

    def mps_conflict(self, job: Job) -> tuple[int, list[MPSClient]] | None:
        """Return the share that a worker of the job needs of a GPU that MPS keeps it from, and the containers there, by key.

        It is the GPU with the least free. None if there is no such GPU, or if too few GPUs have enough free percent even so.
        """
        if not self.has_enough_gpus(job):
            return None
        closed, demands = self._closed(job), demands_mps(job.demand)
        for gpu_class, share_percent in self.choices(job):
            if not mps_matters(gpu_class, share_percent):
                continue
            for number in self._index.fullest(gpu_class, share_percent):
                clients = self._allocations.mps_clients(number, self._view)
                if self._allocations.node_numbers[number] in closed:
                    continue
                if not MPSClients.of(clients).takes(share_percent, demands):
                    return share_percent, sorted(clients)
        return None

    def fewest_nodes(self, job: Job) -> int:
        """Return the fewest usable nodes that could hold the gang if they were empty; 0 if none could."""
        avoided = self.avoided(job)
        key = (job.demand, avoided)
        if key not in self._fewest:
            classes = frozenset(gpu_class for gpu_class, _ in self.choices(job))
            self._fewest[key] = fewest_nodes_if_empty(self._allocations, job.demand, classes, avoided)
        return self._fewest[key]

    def avoided(self, job: Job) -> frozenset[int]:
        """Return the numbers of the nodes that the job is not to be placed on now."""
        return self._avoided.get(job.key, frozenset())

    def node_name(self, node: int) -> str:
        """Return the name of a node."""
        return self._allocations.nodes[node].name

    def _closed(self, job: Job) -> frozenset[int]:
        """Return the numbers of the nodes that take no worker of the job, even with free GPUs."""
        full = [node for node, workers in self.host_limits(job).items() if not workers]
        return self.avoided(job).union(full) if full else self.avoided(job)

    def _look_up(self, job: Job) -> _Suitable:
        if (
            job is self._asked_of
        ):  # many consecutive questions concern one job, and a look-up by demand takes longer
            return self._found
        found = self._suitable.get(job.demand)
        if found is None:
            choices = suitable(job.demand, self._allocations.usable_classes)
            indexes = tuple(self.tracked.index.of_class(gpu_class) for gpu_class, _ in choices)
            least_percent = min((share_percent for _, share_percent in choices), default=0)
            found = self._suitable[job.demand] = (choices, indexes, least_percent)
        self._asked_of, self._found = job, found
        return found

    def _needed(self, gpu_class: GPUClass, share_percent: int) -> int:
        """Return what has to be free of a GPU of a class for a worker with this share."""
        return _free_unshared(gpu_class, share_percent) if self._unshared else share_percent

    def _check(self, job: Job, gpu_class: GPUClass, share_percent: int) -> Callable[[int], bool] | None:
        return worker_check(self._allocations, self.tracked, job, gpu_class, share_percent)

    def _refusal(self, job: Job, number: int, share_percent: int) -> Refusal | None:
        gpu = self._allocations.gpus[number]
        tenants = self._allocations.tenants(number, self._view)
        return refusal(gpu.allocatable_bytes, tenants, tenant_of(job, gpu, share_percent), gpu.lane_rules)


def _free_unshared(gpu_class: GPUClass, share_percent: int) -> int:
    """Return what has to be free of a GPU so that, with a worker of this share, its shares add up to at most 100 percent."""
    beyond_percent = max(0, gpu_class.active_percent - 100)
    return min(gpu_class.active_percent, share_percent + beyond_percent)


def _fewest_gpus(demand: Demand) -> int:
    return min(demand.workers, demand.fewest_workers) * demand.gpus_per_worker
