"""A container's lease as ``/sessions`` shows it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from laneway.node_agent.report.snapshot import LeaseSnapshot


def session_record(node: str, gpu: str, lease: LeaseSnapshot, *, detailed: bool) -> dict[str, Any]:
    """Return the JSON object.

    Args:
        node: the node's name.
        gpu: the GPU's uuid.
        lease: the lease.
        detailed: include its processes, and its message, which may repeat what a script said.
    """
    record = lease.record
    details = {
        "message": lease.message,
        "processes": [asdict(process) for process in lease.processes],
    }
    return {
        "node": node,
        "gpu": gpu,
        "key": record.key,
        "namespace": record.namespace,
        "pod": record.pod,
        "container": record.container,
        "job": record.job,
        "share_percent": record.shares[gpu],
        "quota_bytes": lease.quota_bytes,
        "lane": lease.lane,
        "state": lease.state.value,
        "enforcement": lease.enforcement.value,
        "evicted": lease.evicted,
        "sizes": None if lease.sizes is None else asdict(lease.sizes),
        "report": None if lease.report is None else asdict(lease.report),
        "saved_work": None if lease.saved_work is None else asdict(lease.saved_work),
        "batch": None if lease.batch is None else lease.batch.model_dump(),
        "turns": lease.turns,
        "iterations": lease.iterations,
        "gpu_seconds": lease.busy_seconds,
        "data_seconds": lease.data_seconds,
        "held_bytes": lease.held_bytes,
        "offloaded_bytes": lease.offloaded_bytes,
        "accounted_bytes": lease.accounted_bytes,
        "refused_allocations": lease.refusals,
        **(details if detailed else {}),
    }
