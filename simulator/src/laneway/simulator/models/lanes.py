"""Jobs that share GPUs in lanes, by the stages of their iterations.

``laneway.scheduling.model.interference`` computes the overlap on each GPU; the placement ``lanes`` uses it too. A job is as fast as on its
slowest GPU, because the workers of a gang wait for one another. A job alone on its GPUs runs as in its trace; a job without stages in
the trace counts as computing all the time. ``laneway.lanes`` assigns the lanes, as on a node: each job has its own while memory
suffices; otherwise some take turns in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from laneway.api import quota
from laneway.lanes import LaneRules, LaneTable, Tenant
from laneway.scheduling import GPU
from laneway.scheduling.model.interference import (
    PARALLEL_PENALTY_RATIO,
    SWITCH_SECONDS,
    Interference,
    Load,
    load_of,
)
from laneway.scheduling.model.snapshot import held_gpus
from laneway.simulator.models.alone import workers_ratio
from laneway.simulator.models.speed_model import Changes, Occupancy, Running, Speed


@dataclass(frozen=True, slots=True)
class Lanes:
    """Speeds by overlapping stages."""

    parallel_penalty_ratio: float = PARALLEL_PENALTY_RATIO
    """Each other lane of a GPU lengthens an iteration by this ratio (see :class:`laneway.scheduling.model.interference.Interference`)."""

    switch_seconds: float = SWITCH_SECONDS
    """Between two turns of a lane."""

    def __post_init__(self) -> None:
        Interference(self.parallel_penalty_ratio, self.switch_seconds)

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        """Return the speeds of all jobs on the changed GPUs."""
        return speeds_on_gpus(
            Interference(self.parallel_penalty_ratio, self.switch_seconds), changes, occupancy
        )


class GPUSpeeds(Protocol):
    """Says how fast the jobs of one GPU run."""

    def speed_ratios(self, loads: Sequence[Load]) -> tuple[float, ...]:
        """Return the speed of each of the jobs that share a GPU; 1 is its speed alone."""
        ...


def speeds_on_gpus(speeds: GPUSpeeds, changes: Changes, occupancy: Occupancy) -> dict[str, Speed]:
    """Return the speeds of all jobs on the changed GPUs: a job is as fast as on its slowest GPU."""
    keys = dict.fromkeys(changes.runs)
    for uuid in changes.gpus:
        keys.update(dict.fromkeys(occupancy.on_gpu(uuid)))
    on_gpu: dict[str, dict[str, float]] = {}
    return {key: _speed(speeds, key, occupancy, on_gpu) for key in keys}


def _speed(speeds: GPUSpeeds, key: str, occupancy: Occupancy, on_gpu: dict[str, dict[str, float]]) -> Speed:
    placement = occupancy.run(key).placement
    uuids = [uuid for worker in placement for uuid in worker.gpus]
    for uuid in uuids:
        if uuid not in on_gpu:
            on_gpu[uuid] = _on_gpu(speeds, uuid, occupancy)
    slowest = min(on_gpu[uuid][key] for uuid in uuids)
    return Speed(slowest * workers_ratio(key, occupancy), held_gpus(placement) * slowest)


def _on_gpu(speeds: GPUSpeeds, uuid: str, occupancy: Occupancy) -> dict[str, float]:
    """Return the speed of each job on a GPU."""
    keys = list(occupancy.on_gpu(uuid))
    if len(keys) == 1:
        return {keys[0]: 1.0}
    gpu = occupancy.gpu(uuid)
    runs = [occupancy.run(key) for key in keys]
    tenants = tuple(_tenant(run, gpu) for run in runs)
    lanes = _shared_lanes(gpu.allocatable_bytes, gpu.lane_rules, tenants)
    loads = [load_of(run.job.profile)._replace(lane=lane) for run, lane in zip(runs, lanes, strict=True)]
    return dict(zip(keys, speeds.speed_ratios(loads), strict=True))


def _tenant(run: Running, gpu: GPU) -> Tenant:
    profile = run.job.profile
    share_percent = next(worker.share_percent for worker in run.placement if gpu.uuid in worker.gpus)
    return Tenant(
        run.job.key,
        quota.quota_bytes(share_percent, gpu.allocatable_bytes),
        persistent_bytes=0 if profile is None else profile.persistent_bytes,
        ephemeral_bytes=0 if profile is None else profile.ephemeral_bytes,
        profiled=profile is not None,
        spans_gpus=run.job.demand.spans_gpus,
        exclusive=run.job.demand.exclusive,
    )


@lru_cache(maxsize=65536)
def _shared_lanes(
    capacity_bytes: int, rules: LaneRules, tenants: tuple[Tenant, ...]
) -> tuple[int | None, ...]:
    """Return the lane of each tenant, in order of arrival; None: its own lane."""
    table = LaneTable.empty(capacity_bytes, rules)
    for tenant in tenants:
        table = table.admit(tenant).table
    lanes = [table.lane_of(tenant.key) for tenant in tenants]
    return tuple(lane if lane is not None and lanes.count(lane) > 1 else None for lane in lanes)
