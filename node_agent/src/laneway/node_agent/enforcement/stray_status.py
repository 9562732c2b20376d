"""Records what uses a GPU without a share of it where a user sees it, on the loop's thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from laneway.node_agent.turns.event_recorder import EventRecorder
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.stray_report import StrayReport


def record_strays(
    node: Mapping[str, GPUTurns], gpu: str, report: StrayReport, recorder: EventRecorder
) -> None:
    """Record a report of one GPU: in the leases of each pod that has any on the node, else on the GPU."""
    messages: dict[str, list[str]] = defaultdict(list)
    for use in report.pods:
        messages[use.pod].append(use.message)
    changed = False
    leases = [lease for turns in node.values() for lease in turns.leases.values()]
    for lease in leases:
        text = "; ".join(f"another {said}" for said in messages.get(lease.record.pod_uid, ()))
        if lease.stray_messages.get(gpu, "") != text:
            lease.stray_messages[gpu] = text
            changed = True
    with_share = {lease.record.pod_uid for lease in leases}
    warning = "; ".join(
        f"pod {pod}: a {said}" for pod, texts in messages.items() if pod not in with_share for said in texts
    )
    updated = replace(report, warning=warning[:1024])
    if changed or updated != node[gpu].strays:
        node[gpu].strays = updated
        recorder.changed()
