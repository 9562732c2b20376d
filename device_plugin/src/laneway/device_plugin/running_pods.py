"""Finds the pods with processes on this node, from /proc.

A kubelet that has just started lists no pods, although they all run. A missing pod has ended only if none of
its processes is left. (The plugin sees the node's processes, because its pod has `hostPID`.)
"""

from __future__ import annotations

from pathlib import Path

from laneway.api.pod_cgroup import pod_of


def pods_with_processes(proc: Path = Path("/proc")) -> frozenset[str]:
    """Return the uids of the pods that have a living process."""
    found = set()
    for folder in proc.iterdir():
        if folder.name.isdigit():
            try:
                found.add(pod_of((folder / "cgroup").read_text(encoding="utf-8", errors="replace")))
            except OSError:
                continue  # the process has just ended
    return frozenset(uid for uid in found if uid is not None)
