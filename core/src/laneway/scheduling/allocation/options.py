"""A gang's options: the amounts of CPUs and memory among which Synergy's policies choose.

An option gives every worker the same for each of its GPUs, because the slowest worker sets the pace of all. A gang's last
option takes at most its proportional share of each resource and loses no throughput against it, so it fits if the other gangs
keep within theirs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from laneway.scheduling.allocation.policy import MEBIBYTE, NodeCapacity, PlacedGang, PlacedWorker
from laneway.scheduling.allocation.shares import proportional_share, throughput_ratio
from laneway.scheduling.model.plan import WorkerAllotment
from laneway.scheduling.model.sensitivity import SLACK, Sensitivity, best_demand, least_memory_bytes


@dataclass(frozen=True, slots=True)
class Need:
    """What an option takes on one of the gang's nodes."""

    cpu_millis: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Option:
    """One amount of CPUs and memory for each node of a gang, and its throughput."""

    workers: tuple[WorkerAllotment, ...]
    needs: tuple[Need, ...]
    """One for each of the gang's nodes, in the order of ``nodes_of``."""

    worth: float
    """The gang's throughput in GPUs: its GPUs times its throughput over its best one; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class Grain:
    """The resolution of the options."""

    tolerance_ratio: float
    """Throughput within this fraction of the best counts as the best."""

    cpu_step_millis: int
    """CPUs for a GPU are tried in steps of this, besides the numbers at which the throughput was measured."""

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance_ratio < 1:
            raise ValueError(f"tolerance_ratio is {self.tolerance_ratio}: write 0 or more, less than 1")
        if self.cpu_step_millis < 1:
            raise ValueError(
                f"cpu_step_millis is {self.cpu_step_millis}: write 1 or more, 1000 for whole CPUs"
            )


@dataclass(frozen=True, slots=True)
class GrainParameters:
    """The parameters common to Synergy's policies."""

    tolerance_ratio: float = 0.01
    """Throughput this close to the best counts as the best: a measurement is no better."""

    cpu_step_millis: int = 1000
    """CPUs for a GPU in steps of this: data loaders are processes, and a part of a CPU is hardly noticed."""

    def __post_init__(self) -> None:
        _ = self.grain

    @property
    def grain(self) -> Grain:
        """The resolution of the options."""
        return Grain(self.tolerance_ratio, self.cpu_step_millis)


def nodes_of(gang: PlacedGang) -> tuple[str, ...]:
    """Return the nodes of a gang, each once."""
    return tuple(dict.fromkeys(worker.node for worker in gang.workers))


def options(gang: PlacedGang, nodes: Mapping[str, NodeCapacity], grain: Grain) -> tuple[Option, ...]:
    """Return a gang's options, its best demand first; none has less throughput than its proportional share. Each but the last
    needs less of some resource than every option of at least its throughput. Without a profile, or where the profile does not
    reach down to the proportional share, that share is the last.
    """
    places = {name: str(number) for number, name in enumerate(nodes_of(gang))}
    gang = PlacedGang(
        "", tuple(replace(each, node=places[each.node]) for each in gang.workers), gang.sensitivity
    )
    return _options(gang, tuple(replace(nodes[name], node=place) for name, place in places.items()), grain)


@lru_cache(maxsize=4096)
def _options(gang: PlacedGang, nodes: tuple[NodeCapacity, ...], grain: Grain) -> tuple[Option, ...]:
    """Return the options shared by all gangs that differ only in the names of their nodes."""
    node_of = {node.node: node for node in nodes}
    share = _option(gang, tuple(proportional_share(worker, node_of[worker.node]) for worker in gang.workers))
    if gang.sensitivity is None:
        return (share,)
    floor_ratio = throughput_ratio(gang.sensitivity, gang.workers, share.workers)
    last = _leanest_share(gang, share, floor_ratio)
    cpu_limit, memory_limit = _limits(gang, node_of)
    better = [
        option
        for cpu, memory in _levels(gang.sensitivity, floor_ratio, cpu_limit, memory_limit, grain)
        if (option := _option(gang, tuple(_scaled(worker, cpu, memory) for worker in gang.workers))).worth
        > last.worth + SLACK
        and all(_is_within(need, node) for need, node in zip(option.needs, nodes, strict=True))
    ]
    return (*sorted(better, key=lambda option: -option.worth), last)


def _leanest_share(gang: PlacedGang, share: Option, floor_ratio: float) -> Option:
    """Return the share without the amounts that add no throughput."""
    if gang.sensitivity is None or floor_ratio <= SLACK:
        return share
    return _option(
        gang,
        tuple(
            _leanest(gang.sensitivity, worker, has, floor_ratio)
            for worker, has in zip(gang.workers, share.workers, strict=True)
        ),
    )


def _leanest(
    sensitivity: Sensitivity, worker: PlacedWorker, has: WorkerAllotment, floor_ratio: float
) -> WorkerAllotment:
    """Return the fewest CPUs, then the least memory, with which a worker reaches the same ratio as with all of them."""

    def reached(cpu: int, memory: int) -> float:
        return sensitivity.ratio(100 * cpu / worker.gpu_percent, 100 * memory / worker.gpu_percent)

    wanted = floor_ratio - SLACK
    cpu = bisect_left(range(has.cpu_millis), wanted, key=lambda cpu: reached(cpu, has.memory_bytes))
    mebibytes = bisect_left(
        range(has.memory_bytes // MEBIBYTE),
        wanted,
        key=lambda mebibytes: reached(cpu, mebibytes * MEBIBYTE),
    )
    return WorkerAllotment(worker.worker, cpu, mebibytes * MEBIBYTE)


def _limits(gang: PlacedGang, nodes: Mapping[str, NodeCapacity]) -> tuple[int, int]:
    """Return the CPUs and memory per GPU that the gang would have alone on its nodes."""
    percent_on: dict[str, int] = {}
    for worker in gang.workers:
        percent_on[worker.node] = percent_on.get(worker.node, 0) + worker.gpu_percent
    return (
        min(100 * nodes[name].cpu_millis // percent for name, percent in percent_on.items()),
        MEBIBYTE
        * min(nodes[name].memory_bytes // MEBIBYTE * 100 // percent for name, percent in percent_on.items()),
    )


@lru_cache(maxsize=4096)
def _levels(
    sensitivity: Sensitivity, floor_ratio: float, cpu_limit_millis: int, memory_limit_bytes: int, grain: Grain
) -> tuple[tuple[int, int], ...]:
    """Return the useful combinations of CPUs and memory per GPU, the fastest first."""
    best = best_demand(sensitivity, cpu_limit_millis, memory_limit_bytes, grain.tolerance_ratio)
    best_cpu = min(_up(best.cpu_millis, grain.cpu_step_millis), cpu_limit_millis)
    cpus = {best_cpu, *range(grain.cpu_step_millis, best_cpu, grain.cpu_step_millis)}
    cpus |= {cpu for cpu in sensitivity.cpu_points_millis if cpu < best_cpu}
    found: dict[tuple[int, int], float] = {}
    for cpu in cpus:
        reachable = min(best.ratio, sensitivity.ratio(cpu, memory_limit_bytes))
        enough = least_memory_bytes(sensitivity, reachable, cpu, memory_limit_bytes)
        for memory in (enough, *(memory for memory in sensitivity.memory_points_bytes if memory < enough)):
            level = (cpu, min(_up(memory, MEBIBYTE), memory_limit_bytes))
            found[level] = min(best.ratio, sensitivity.ratio(*level))
    chosen: list[tuple[int, int]] = []
    for level in sorted(found, key=lambda level: (-found[level], level)):
        if found[level] > floor_ratio + SLACK and not any(
            other[0] <= level[0] and other[1] <= level[1] for other in chosen
        ):
            chosen.append(level)
    return tuple(chosen)


def _scaled(worker: PlacedWorker, cpu_millis: int, memory_bytes: int) -> WorkerAllotment:
    """Return a worker's amount from an amount per GPU, rounded up so that rounding never slows it."""
    return WorkerAllotment(
        worker.worker,
        -(-cpu_millis * worker.gpu_percent // 100),
        _up(-(-memory_bytes * worker.gpu_percent // 100), MEBIBYTE),
    )


def _option(gang: PlacedGang, workers: tuple[WorkerAllotment, ...]) -> Option:
    cpu_on: dict[str, int] = {}
    memory_on: dict[str, int] = {}
    for worker, has in zip(gang.workers, workers, strict=True):
        cpu_on[worker.node] = cpu_on.get(worker.node, 0) + has.cpu_millis
        memory_on[worker.node] = memory_on.get(worker.node, 0) + has.memory_bytes
    ratio = 0.0 if gang.sensitivity is None else throughput_ratio(gang.sensitivity, gang.workers, workers)
    return Option(
        workers, tuple(Need(cpu_on[name], memory_on[name]) for name in cpu_on), ratio * gang.gpu_percent / 100
    )


def _is_within(need: Need, node: NodeCapacity) -> bool:
    return need.cpu_millis <= node.cpu_millis and need.memory_bytes <= node.memory_bytes


def _up(amount: int, step: int) -> int:
    return -(-amount // step) * step
