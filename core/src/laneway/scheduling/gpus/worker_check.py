"""Checks whether a worker fits a GPU beside its tenants, where the free percent of the GPU does not say so by itself."""

from __future__ import annotations

from collections.abc import Callable

from laneway.lanes import MemoryUsage, fit_check
from laneway.scheduling.gpus.allocations import Allocations
from laneway.scheduling.gpus.mps_clients import MPSClients, demands_mps, mps_matters
from laneway.scheduling.gpus.views import TrackedView
from laneway.scheduling.model.gpu_class import GPUClass, lanes_matter
from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.model.tenants import tenant_of

Check = Callable[[int], bool]
"""Whether a worker fits a GPU, given by its number."""


def worker_check(
    allocations: Allocations, tracked: TrackedView, job: Job, gpu_class: GPUClass, share_percent: int
) -> Check | None:
    """Return a check whether a worker fits the GPUs of a class in a view. None where free percent alone decides."""
    memory = _memory_check(allocations, tracked, job, gpu_class, share_percent)
    if not mps_matters(gpu_class, share_percent):
        return memory
    demands = demands_mps(job.demand)

    def fits(number: int) -> bool:
        if memory is not None and not memory(number):
            return False
        return MPSClients.of(allocations.mps_clients(number, tracked.view)).takes(share_percent, demands)

    return fits


def memory_usage(allocations: Allocations, tracked: TrackedView, number: int) -> MemoryUsage:
    """Return the total memory that counts on a GPU in a view."""
    found = tracked.memory_usage.get(number)
    return allocations.memory_usage(number, tracked.view) if found is None else found


def _memory_check(
    allocations: Allocations, tracked: TrackedView, job: Job, gpu_class: GPUClass, share_percent: int
) -> Check | None:
    """Return a check of memory and lanes; None where free percent implies that they suffice."""
    if not lanes_matter(job.demand, gpu_class):
        return None
    check: Callable[[MemoryUsage], bool] | None = None

    def fits(number: int) -> bool:
        nonlocal check
        if check is None:  # GPUs of a class have the same memory, so the tenant is the same on each
            newcomer = tenant_of(job, allocations.gpus[number], share_percent)
            check = fit_check(gpu_class.allocatable_bytes, newcomer, gpu_class.lane_rules)
        return check(memory_usage(allocations, tracked, number))

    return fits
