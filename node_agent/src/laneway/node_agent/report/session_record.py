"""A container's hold as ``/sessions`` tells it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from laneway.node_agent.report.snapshot import HoldSnapshot


def session_record(node: str, gpu: str, hold: HoldSnapshot) -> dict[str, Any]:
    """Return what goes into JSON."""
    record = hold.record
    return {
        "node": node,
        "gpu": gpu,
        "key": record.key,
        "namespace": record.namespace,
        "pod": record.pod,
        "container": record.container,
        "job": record.job,
        "share_percent": record.shares[gpu],
        "quota_bytes": hold.quota_bytes,
        "lane": hold.lane,
        "state": hold.state.value,
        "enforcement": hold.enforcement.value,
        "evicted": hold.evicted,
        "sizes": None if hold.sizes is None else asdict(hold.sizes),
        "report": None if hold.report is None else asdict(hold.report),
        "turns": hold.turns,
        "iterations": hold.iterations,
        "gpu_seconds": hold.busy_seconds,
        "data_seconds": hold.data_seconds,
        "held_bytes": hold.held_bytes,
        "offloaded_bytes": hold.offloaded_bytes,
        "message": hold.message,
        "processes": [asdict(process) for process in hold.processes],
    }
