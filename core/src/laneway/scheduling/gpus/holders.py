"""What the holders of one GPU come to in a view: the free percent, the tenants of its memory, those that take turns, MPS clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from laneway.lanes import Tenant
from laneway.scheduling.gpus.allocation import Allocation, AllocationStatus
from laneway.scheduling.gpus.mps_clients import MPSClient, demands_mps
from laneway.scheduling.gpus.views import View
from laneway.scheduling.model.plan import PreemptionAction
from laneway.scheduling.model.snapshot import GPU, Job, JobState
from laneway.scheduling.model.tenants import foreign_tenant, paused_tenant, tenant_of

_ALLOCATED, _RELEASING, _PIPELINED = (
    AllocationStatus.ALLOCATED,
    AllocationStatus.RELEASING,
    AllocationStatus.PIPELINED,
)

Held = tuple[int, Allocation]
"""The percent of the GPU, and the job's allocation."""


def sharers_of(on: Mapping[str, Held], view: View) -> list[Job]:
    """Return the jobs that count in a view and take turns, by key."""
    return [
        on[key][1].job
        for key in sorted(on)
        if on[key][1].counts(view) and on[key][1].status is not AllocationStatus.PAUSED
    ]


def tenants_with(gpu: GPU, held: Iterable[Held], view: View) -> list[Tenant]:
    """Return the tenants whose memory counts in a view, the foreign ones included."""
    tenants = [foreign_tenant(foreign, gpu) for foreign in gpu.foreign]
    for percent, entry in held:
        paused = entry.status is AllocationStatus.PAUSED
        releasing = entry.status is _RELEASING and not view.idle
        if (paused and entry.job.state is JobState.OFFLOADED) or (
            releasing and entry.action is not PreemptionAction.PAUSE
        ):
            continue
        if releasing or (paused and entry.counts(view)):
            tenants.append(paused_tenant(entry.job, gpu, percent))
        elif entry.counts(view):
            tenants.append(tenant_of(entry.job, gpu, percent))
    return tenants


def mps_clients_of(gpu: GPU, held: Iterable[Held], view: View) -> list[MPSClient]:
    """Return the containers that count in a view: a job that keeps its pod, paused or not, counts."""
    clients = [MPSClient(foreign.key, foreign.share_percent, False) for foreign in gpu.foreign]
    for percent, entry in held:
        stays = entry.status is _RELEASING and entry.action is not PreemptionAction.EVICT
        if stays or entry.counts(view):
            clients.append(MPSClient(entry.job.key, percent, demands_mps(entry.job.demand)))
    return clients


def free_percent(foreign_percent: int, held: Iterable[Held], limits: tuple[int, int], view: View) -> int:
    """Return what is free in a view; 0 where more is held than the GPU offers.

    Args:
        foreign_percent: what foreign tenants hold.
        held: what jobs hold.
        limits: the percent that may take turns at the same time, and all of it.
        view: what counts.
    """
    active, paused, releasing, pipelined = foreign_percent, 0, 0, 0
    now, below = view
    for percent, entry in held:
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
    most_active, most = limits
    return max(0, min(most_active, most - paused) - active)
