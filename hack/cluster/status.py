"""Prints a table of an embedded cluster's components: process, health, log."""

from __future__ import annotations

from hack.cluster.embedded import CONTROL_PLANE_COMPONENTS, RunningCluster
from hack.cluster.node import NODE_COMPONENTS


def print_status(running: RunningCluster) -> bool:
    """Print the table; return whether everything runs and works."""
    rows: list[tuple[str, int | None, str]] = []
    for name in CONTROL_PLANE_COMPONENTS:
        pid = running.component(name).pid()
        rows.append(
            (name, pid, "stopped" if pid is None else "healthy" if running.health(name)() else "unhealthy")
        )
    ready = running.kubectl.ready_nodes()
    for node in running.nodes:
        for name in NODE_COMPONENTS:
            component = node.component(name)
            pid = component.pid()
            rows.append((component.name, pid, "stopped" if pid is None else "running"))
        rows.append((node.plan.name, node.holder.pid(), "Ready" if node.plan.name in ready else "NotReady"))
    width = max(len(name) for name, _, _ in rows)
    for name, pid, state in rows:
        print(f"{name:<{width}}  {pid or '-':>8}  {state}")
    print(f"kubeconfig: {running.cluster.kubeconfig}\nlogs:       {running.cluster.folder / 'logs'}")
    return all(state in ("healthy", "running", "Ready") for _, _, state in rows)
