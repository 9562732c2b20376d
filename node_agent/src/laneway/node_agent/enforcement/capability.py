"""Whether the agent may stop other users' processes."""

from __future__ import annotations

from pathlib import Path

_CAP_KILL = 5
"""Its bit in CapEff of /proc/PID/status (capabilities(7))."""


def why_no_eviction(
    action: str, status: Path = Path("/proc/self/status"), *, only_own_jobs: bool = False
) -> str:
    """Return why the agent stops nobody's processes, as a clause; empty where it does.

    Args:
        action: ``watchdog.action`` of the configuration.
        status: the agent's own.
        only_own_jobs: the processes are of the agent's own user, which takes no capability.
    """
    if action != "Evict":
        return f"watchdog.action is {action}, so nobody is stopped"
    if only_own_jobs:
        return ""
    for line in status.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff" and int(value, 16) >> _CAP_KILL & 1:
            return ""
    return "the agent lacks the capability KILL, so it cannot stop other users' processes"
