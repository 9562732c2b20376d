"""Converts placements to the tenants that the safety condition counts."""

from __future__ import annotations

from dataclasses import replace

from laneway.api import quota
from laneway.lanes import Tenant
from laneway.scheduling.model.snapshot import GPU, ForeignTenant, Job


def tenant_of(job: Job, gpu: GPU, share_percent: int) -> Tenant:
    """Return the tenant that a worker of a job is, or would be, on a GPU.

    The tenant is named after its job: workers of one gang never share a GPU.
    """
    profile = job.profile
    return Tenant(
        job.key,
        quota.quota_bytes(share_percent, gpu.allocatable_bytes),
        persistent_bytes=0 if profile is None else profile.persistent_bytes,
        ephemeral_bytes=0 if profile is None else profile.ephemeral_bytes,
        profiled=profile is not None,
        spans_gpus=job.demand.spans_gpus,
        exclusive=job.demand.exclusive,
    )


def paused_tenant(job: Job, gpu: GPU, share_percent: int) -> Tenant:
    """Return the tenant of a paused job's worker on its GPU: it keeps its persistent memory and uses no other."""
    return replace(tenant_of(job, gpu, share_percent), ephemeral_bytes=0, exclusive=False)


def kept_bytes(job: Job, gpu: GPU, share_percent: int) -> int:
    """Return the bytes that a job's worker keeps on its GPU between two iterations; its full quota if it is not profiled."""
    tenant = paused_tenant(job, gpu, share_percent)
    return tenant.persistent_bytes if tenant.profiled else tenant.quota_bytes


def foreign_tenant(foreign: ForeignTenant, gpu: GPU) -> Tenant:
    """Return a foreign tenant as the safety condition counts it."""
    return Tenant(
        foreign.key,
        quota.quota_bytes(foreign.share_percent, gpu.allocatable_bytes),
        persistent_bytes=foreign.persistent_bytes,
        ephemeral_bytes=foreign.ephemeral_bytes,
        profiled=foreign.profiled,
        spans_gpus=foreign.spans_gpus,
    )
