"""Checks whether the agent may stop other users' processes."""

from __future__ import annotations

from pathlib import Path

_CAP_KILL = 5
"""Its bit in CapEff of /proc/PID/status (capabilities(7))."""


def no_eviction_reason(
    action: str, status: Path = Path("/proc/self/status"), *, only_own_jobs: bool = False
) -> str:
    """Return why the agent stops no processes, as a clause; empty if it does.

    Args:
        action: ``watchdog.action`` of the configuration.
        status: the agent's own status file.
        only_own_jobs: all jobs belong to the agent's own user, which needs no capability.
    """
    if action != "Evict":
        return f"watchdog.action is {action}, so no process is stopped"
    if only_own_jobs:
        return ""
    for line in status.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff" and int(value, 16) >> _CAP_KILL & 1:
            return ""
    return "the agent lacks the capability KILL, so it cannot stop other users' processes"
