"""What the cluster could give a job if no other job were there: it tells "waits for others" from "never fits"."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from laneway.api.enforcement import Enforcement
from laneway.api.quantity import format_bytes
from laneway.scheduling.gpus.allocations import Allocations
from laneway.scheduling.gpus.host_limits import Left
from laneway.scheduling.model.gpu_class import GPUClass, accepts, accepts_model, lanes_matter, share_needed
from laneway.scheduling.model.host_resources import (
    MEMORY,
    HostResources,
    format_amount,
    format_requests,
    less_requested,
    quantity_of,
    scarcest,
)
from laneway.scheduling.model.plan import WaitingCode, WaitingReason
from laneway.scheduling.model.snapshot import Demand

_NAMED = 3
"""The most nodes that are named for one cause; the others are counted."""


class ClusterCapacity:
    """GPUs by node and class, free or not."""

    def __init__(self, allocations: Allocations) -> None:
        self._allocations = allocations
        self._counts = [
            Counter(allocations.classes[number] for number in numbers) for numbers in allocations.gpus_of_node
        ]
        self._usable_counts = [
            Counter(allocations.classes[number] for number in numbers if number in allocations.usable)
            for numbers in allocations.gpus_of_node
        ]
        self._all = sum(self._counts, Counter[GPUClass]())
        self._unschedulable_reasons: dict[tuple[Demand, frozenset[int]], WaitingReason | None] = {}
        self._by_memory: dict[Demand, bool] = {}
        self._suitable_gpus: dict[Demand, int] = {}

    def unschedulable_reason(self, demand: Demand, avoided: frozenset[int]) -> WaitingReason | None:
        """Return why a gang cannot run on the cluster's nodes, ever or as they are now; None if it only waits for other jobs.

        Args:
            demand: what the gang needs.
            avoided: numbers of the nodes that it is kept away from.
        """
        key = (demand, avoided)
        if key not in self._unschedulable_reasons:
            self._unschedulable_reasons[key] = self._never(demand) or self._unavailable(demand, avoided)
        return self._unschedulable_reasons[key]

    def depends_on_memory(self, demand: Demand) -> bool:
        """Whether the memory in a job's profile may decide that it fits a GPU of the cluster. An exclusive job fits any empty one."""
        if demand not in self._by_memory:
            self._by_memory[demand] = not demand.exclusive and any(
                _suits(demand, gpu_class) and lanes_matter(demand, gpu_class) for gpu_class in self._all
            )
        return self._by_memory[demand]

    def suitable_gpus(self, demand: Demand) -> int:
        """Return how many GPUs of the cluster suit a demand."""
        if demand not in self._suitable_gpus:
            self._suitable_gpus[demand] = sum(
                count for gpu_class, count in self._all.items() if _suits(demand, gpu_class)
            )
        return self._suitable_gpus[demand]

    def unusable(self, demand: Demand, avoided: frozenset[int]) -> str:
        """Return what keeps a gang from GPUs that exist, in words and with the first nodes; empty where nothing does."""
        return "; ".join(self._causes(demand, avoided))

    def _never(self, demand: Demand) -> WaitingReason | None:
        """Return why a gang cannot run in this cluster even if it were empty; None if it could."""
        if not self._all:
            return WaitingReason(
                WaitingCode.NOT_ENOUGH_GPUS,
                f"It needs {needs(demand)}, and the cluster has none.",
                "Add a node with GPUs.",
                lacking_gpus=demand.gpus,
            )
        return (
            self._no_such_model(demand)
            or self._no_such_enforcement(demand)
            or self._no_such_size(demand)
            or self._no_such_number(demand)
            or self._no_such_host(demand)
        )

    def _unavailable(self, demand: Demand, avoided: frozenset[int]) -> WaitingReason | None:
        """Return why a gang that the cluster could hold cannot run on the nodes that can be used now, or None."""
        hosts = self._allocations.hosts
        most_workers, alone = hosts.most_workers, hosts.most_workers_alone
        enough = demand.workers
        if self._slots(demand, self._usable_counts, most_workers, avoided, enough) >= enough:
            return None
        if self._slots(demand, self._usable_counts, alone, avoided, enough) >= enough:
            return self._held_by_other_pods(demand, avoided)
        usable = sum(
            count
            for node, counts in enumerate(self._usable_counts)
            for gpu_class, count in counts.items()
            if node not in avoided and _suits(demand, gpu_class)
        )
        causes = self.unusable(demand, avoided) or "no node is left"
        return WaitingReason(
            WaitingCode.NODES_UNAVAILABLE,
            f"It needs {needs(demand)}; {usable} of {self.suitable_gpus(demand)} suitable GPUs can be used now: {causes}.",
            "It can start when these nodes and GPUs are back.",
            lacking_gpus=max(0, demand.gpus - usable),
        )

    def _no_such_model(self, demand: Demand) -> WaitingReason | None:
        if any(accepts_model(demand, gpu_class.model) for gpu_class in self._all):
            return None
        return WaitingReason(
            WaitingCode.MODEL_NOT_IN_CLUSTER,
            f"It accepts {_listed(demand.models)}, and the cluster has only {_models(self._all)}.",
            f"Write {self._nearest_models(demand)} in spec.gpus.models, or add a node with a model that the job accepts.",
            lacking_gpus=demand.gpus,
        )

    def _no_such_enforcement(self, demand: Demand) -> WaitingReason | None:
        if any(accepts(demand, gpu_class) for gpu_class in self._all):
            return None
        held = Counter[str]()
        for gpu_class, count in self._all.items():
            if accepts_model(demand, gpu_class.model):
                held[gpu_class.enforcement] += count
        return WaitingReason(
            WaitingCode.ENFORCEMENT_NOT_IN_CLUSTER,
            f"It demands the enforcement {demand.minimum_enforcement}, and the GPUs that it accepts are held by "
            f"{', '.join(f'{level} ({count})' for level, count in sorted(held.items()))}.",
            "Lower minimumEnforcement. Or raise the level of the nodes: enforcement.level in their configuration, and where that "
            "asks for it, what enforcementReason reports in the GPUNodes' status.",
            lacking_gpus=demand.gpus,
        )

    def _no_such_size(self, demand: Demand) -> WaitingReason | None:
        accepted = [gpu_class for gpu_class in self._all if accepts(demand, gpu_class)]
        if demand.memory_bytes is None or any(_suits(demand, gpu_class) for gpu_class in accepted):
            return None
        largest = max(accepted)
        return WaitingReason(
            WaitingCode.GPU_TOO_SMALL,
            f"It needs {format_bytes(demand.memory_bytes)} of one GPU; the largest that it accepts "
            f"({largest.model}) has {format_bytes(largest.allocatable_bytes)} for jobs.",
            f"Lower spec.gpus.memory to at most {quantity_of(MEMORY, largest.allocatable_bytes)}, or add a node with larger GPUs.",
            lacking_bytes=demand.memory_bytes - largest.allocatable_bytes,
        )

    def _no_such_number(self, demand: Demand) -> WaitingReason | None:
        if _slots(demand, self._counts, demand.workers) >= demand.workers:
            return None
        suited = self.suitable_gpus(demand)
        most, node = max(
            (
                max((count for gpu_class, count in counts.items() if _suits(demand, gpu_class)), default=0),
                -number,
            )
            for number, counts in enumerate(self._counts)
        )
        if most < demand.gpus_per_worker:
            return WaitingReason(
                WaitingCode.WORKER_LARGER_THAN_NODE,
                f"Each of its workers needs {demand.gpus_per_worker} GPUs of one node; the largest suitable node, "
                f"{self._allocations.nodes[-node].name}, has {most}.",
                f"Create it again with spec.gpus.count of at most {most}, and with as many workers as {suitable(suited)} "
                "can hold; or add a larger node.",
                lacking_gpus=demand.gpus_per_worker - most,
            )
        slots = _slots(demand, self._counts)
        if suited >= demand.gpus:
            return WaitingReason(
                WaitingCode.NOT_ENOUGH_GPUS,
                f"It needs {needs(demand)}, and the cluster's nodes together can hold {slots} of its workers.",
                f"Lower spec.workers to at most {slots}, or add nodes for {demand.workers - slots} more.",
                lacking_gpus=(demand.workers - slots) * demand.gpus_per_worker,
            )
        lacking = demand.gpus - suited
        return WaitingReason(
            WaitingCode.NOT_ENOUGH_GPUS,
            f"It needs {needs(demand)}, and the cluster has {suitable(suited)}.",
            f"Lower spec.workers to at most {slots}, or add {lacking} such {'GPU' if lacking == 1 else 'GPUs'} to the cluster.",
            lacking_gpus=lacking,
        )

    def _no_such_host(self, demand: Demand) -> WaitingReason | None:
        """Return why the nodes' CPUs, memory or other resources could not hold the gang, though their GPUs could."""
        alone = self._allocations.hosts.most_workers_alone
        if (
            not demand.requests
            or self._slots(demand, self._counts, alone, enough=demand.workers) >= demand.workers
        ):
            return None
        slots = self._slots(demand, self._counts, alone)
        suited = [node for node, counts in enumerate(self._counts) if _node_slots(demand, counts)]
        number, lacking, amount = self._with_most(demand.requests, suited, self._allocations.hosts.left_alone)
        asks = f"Each of its workers requests {format_requests(demand.requests)}"
        if not slots:
            offered = self._allocations.hosts.left_alone(number) or {}
            short = [name for name, wanted in demand.requests.amounts if offered.get(name, 0) < wanted]
            has = " and ".join(format_amount(name, offered.get(name, 0)) for name in short)
            less = less_requested(demand.requests, offered)
            return WaitingReason(
                WaitingCode.WORKER_LARGER_THAN_NODE,
                f"{asks}; the largest node with suitable GPUs, {self._name(number)}, offers {has}.",
                f"{less}, or add a larger node." if less else "Add a larger node.",
            )
        has = f"{self._name(number)} has the most: {format_amount(lacking, amount)}"
        return WaitingReason(
            WaitingCode.NOT_ENOUGH_GPUS,
            f"It needs {needs(demand)}. {asks}: the cluster's nodes together can hold {slots} of them, and {has}.",
            f"Lower spec.workers to at most {slots}, request less {lacking} in spec.template, or add nodes for "
            f"{demand.workers - slots} more.",
            lacking_gpus=(demand.workers - slots) * demand.gpus_per_worker,
        )

    def _held_by_other_pods(self, demand: Demand, avoided: frozenset[int]) -> WaitingReason:
        suited = [
            node
            for node, counts in enumerate(self._usable_counts)
            if node not in avoided and _node_slots(demand, counts)
        ]
        number, lacking, amount = self._with_most(demand.requests, suited, self._allocations.hosts.offered)
        return WaitingReason(
            WaitingCode.HELD_BY_OTHER_PODS,
            f"It needs {needs(demand)}. Each of its workers requests {format_requests(demand.requests)}: the nodes have as "
            f"much, but other pods hold some of it, and {self._name(number)} has the most left: "
            f"{format_amount(lacking, max(0, amount))}.",
            f"It can start when other pods end there, or when the template requests less {lacking}.",
        )

    def _with_most(
        self, requests: HostResources, nodes: Iterable[int], left: Callable[[int], Left | None]
    ) -> tuple[int, str, int]:
        """Return the number of the node that comes closest to taking a worker, the resource that is scarcest there, and how much of it
        is left."""
        found = []
        for node in nodes:
            amounts = left(node) or {}
            lacking = scarcest(requests, amounts)
            amount = amounts.get(lacking, 0)
            found.append((amount / requests.of_resource(lacking), -node, lacking, amount))
        _, number, lacking, amount = max(found)
        return -number, lacking, amount

    def _name(self, number: int) -> str:
        return self._allocations.nodes[number].name

    def _nearest_models(self, demand: Demand) -> str:
        """Return in words which of the cluster's models a job's user may have meant; else that any of them would do."""
        wanted = [model.strip("*").casefold() for model in demand.models]
        models = sorted({gpu_class.model for gpu_class in self._all})
        near = [
            each
            for each in models
            if any(name in each.casefold() or each.casefold() in name for name in wanted)
        ]
        return _listed(near) if near else "one of these"

    def _slots(
        self,
        demand: Demand,
        counts: Sequence[Mapping[GPUClass, int]],
        most_workers: Callable[[int, HostResources], float],
        avoided: frozenset[int] = frozenset(),
        enough: float = math.inf,
    ) -> int:
        """Return how many workers the nodes could hold by these GPUs, and by what they have for pods' requests; where these are
        enough, perhaps less than all."""
        slots = 0
        for number, each in enumerate(counts):
            if number not in avoided and (here := _node_slots(demand, each)):
                slots += int(min(here, most_workers(number, demand.requests)))
                if slots >= enough:
                    break
        return slots

    def _causes(self, demand: Demand, avoided: frozenset[int]) -> Iterable[str]:
        """Yield the causes that keep GPUs from being used, each with its first nodes."""
        sick: dict[str, int] = {}
        takes: dict[str, list[str]] = {}
        weak: dict[str, list[str]] = {}
        for number, node in enumerate(self._allocations.nodes):
            unhealthy = sum(not gpu.healthy for gpu in node.gpus)
            if not node.schedulable:
                takes.setdefault(f"no workers ({node.reason or 'no reason given'})", []).append(node.name)
            elif number in avoided:
                takes.setdefault("none of its workers", []).append(node.name)
            elif unhealthy:
                sick[f"{unhealthy} of {node.name}"] = unhealthy
            if node.schedulable and number not in avoided:
                for level in self._weaker_levels(demand, number):
                    weak.setdefault(level, []).append(node.name)
        if sick:
            yield f"{_first(list(sick))} {'is' if sum(sick.values()) == 1 else 'are'} unhealthy"
        for what, names in takes.items():
            yield f"{_first(names)} {'takes' if len(names) == 1 else 'take'} {what}"
        for level, names in sorted(weak.items()):
            yield f"{_first(names)} {'has' if len(names) == 1 else 'have'} GPUs held by {level} only"

    def _weaker_levels(self, demand: Demand, node: int) -> set[str]:
        """Return the levels of a node's GPUs that would do but for the level that the job demands."""
        return {
            str(gpu_class.enforcement)
            for gpu_class in self._usable_counts[node]
            if accepts_model(demand, gpu_class.model) and not accepts(demand, gpu_class)
        }


def _first(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def needs(demand: Demand) -> str:
    """Return in words what a gang needs: ``4 GPUs (4 workers)``, ``50 percent of a GPU``, ``8.0 GiB of each of 2 GPUs``."""
    model = f" of {_listed(demand.models)}" if demand.models else ""
    if demand.minimum_enforcement is not Enforcement.NONE:
        model += f" held by {demand.minimum_enforcement}"
    if demand.memory_bytes is not None:
        part = format_bytes(demand.memory_bytes)
    elif demand.share_percent < 100 and not demand.exclusive:
        part = f"{demand.share_percent} percent"
    else:
        part = ""
    count = demand.gpus
    if part:
        return f"{part} of a GPU{model}" if count == 1 else f"{part} of each of {count} GPUs{model}"
    alone = " alone" if demand.exclusive else ""
    if demand.workers == 1:
        return f"{count} {'GPU' if count == 1 else 'GPUs of one node'}{model}{alone}"
    gang = f"{demand.workers} workers" + (
        f" with {demand.gpus_per_worker} each" if demand.gpus_per_worker > 1 else ""
    )
    return f"{count} GPUs{model}{alone} ({gang})"


def suitable(gpus: int) -> str:
    """Return in words how many GPUs suit a job: ``1 suitable GPU``."""
    return f"{gpus} suitable {'GPU' if gpus == 1 else 'GPUs'}"


def _suits(demand: Demand, gpu_class: GPUClass) -> bool:
    return accepts(demand, gpu_class) and share_needed(demand, gpu_class) is not None


def _slots(demand: Demand, nodes: Iterable[Mapping[GPUClass, int]], enough: float = math.inf) -> int:
    """Return how many workers the empty nodes' GPUs could hold; where these are enough, perhaps less than all."""
    slots = 0
    for counts in nodes:
        slots += _node_slots(demand, counts)
        if slots >= enough:
            break
    return slots


def _node_slots(demand: Demand, counts: Mapping[GPUClass, int]) -> int:
    return sum(
        count // demand.gpus_per_worker for gpu_class, count in counts.items() if _suits(demand, gpu_class)
    )


def _listed(names: Iterable[str]) -> str:
    return " or ".join(sorted(names))


def _models(counts: Mapping[GPUClass, int]) -> str:
    by_model: Counter[str] = Counter()
    for gpu_class, count in counts.items():
        by_model[gpu_class.model] += count
    return ", ".join(f"{model} ({count})" for model, count in sorted(by_model.items()))
