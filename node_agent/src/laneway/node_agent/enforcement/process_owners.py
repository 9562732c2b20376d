"""Finds the container that owns a process on a GPU: by its session, else by its job's launcher, else by
its cgroup.

If a pod has several containers with a share of one GPU, the folder mounted at /run/laneway decides. It is
read from /proc/PID/mountinfo, which anybody may read. A container could falsify it only towards other
containers of its own pod.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from laneway.api.names import CONTAINER_LANEWAY_FOLDER
from laneway.api.pod_cgroup import pod_of
from laneway.node_agent.enforcement.violation import Claim
from laneway.node_agent.processes import ancestry

_ROOT, _MOUNT_POINT = 3, 4
"""Fields of a line of /proc/PID/mountinfo (proc(5))."""


@dataclass(frozen=True, slots=True)
class _ProcessInfo:
    """What is known of a process."""

    pod: str | None
    folder: str
    """The name of the container folder that it sees, which is the container's key; empty if it sees none."""

    is_agents: bool
    """It is in the agent's own cgroup, like the MPS server."""

    ancestry: tuple[tuple[int, int], ...] = ()
    """The process and its ancestors, the nearest first, by pid and start."""


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """The memory of one GPU's processes, by owner."""

    by_claim: Mapping[tuple[str, str], Mapping[int, int]] = field(default_factory=dict)
    """Bytes by pid, by the claim's key."""

    foreign: Mapping[int, int] = field(default_factory=dict)
    """Bytes by pid, of processes without an owner."""


class ProcessOwners:
    """Attributes the processes of one GPU to containers. A process is looked up once."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._processes: dict[int, _ProcessInfo] = {}

    def attribute(self, process_bytes: Mapping[int, int], claims: Collection[Claim]) -> ProcessMemory:
        """Attribute the processes of a reading. Those that have ended meanwhile are left out."""
        by_session = {pid: claim for claim in claims for pid in claim.session_pids}
        processes: dict[int, _ProcessInfo] = {}
        by_claim: dict[tuple[str, str], dict[int, int]] = {}
        foreign: dict[int, int] = {}
        for pid, used_bytes in process_bytes.items():
            claim = by_session.get(pid)
            if claim is None:
                try:
                    processes[pid] = self._cached(pid) or self._look_up(pid)
                except OSError:
                    continue
                claim = _claim_of(processes[pid], claims)
            if claim is not None:
                by_claim.setdefault(claim.key, {})[pid] = used_bytes
            elif not processes[pid].is_agents:
                foreign[pid] = used_bytes
        self._processes = processes
        return ProcessMemory(by_claim, foreign)

    def _cached(self, pid: int) -> _ProcessInfo | None:
        return self._processes.get(pid) if (self._proc / str(pid)).exists() else None

    def _look_up(self, pid: int) -> _ProcessInfo:
        cgroup = self._read(str(pid), "cgroup")
        return _ProcessInfo(
            pod=pod_of(cgroup),
            folder=_mounted_at(self._read(str(pid), "mountinfo"), CONTAINER_LANEWAY_FOLDER),
            is_agents=cgroup == self._read("self", "cgroup"),
            ancestry=ancestry(pid, self._proc),
        )

    def _read(self, process: str, name: str) -> str:
        return (self._proc / process / name).read_text(encoding="utf-8", errors="replace")


def _claim_of(process: _ProcessInfo, claims: Collection[Claim]) -> Claim | None:
    launched = {(who.pid, who.start_ticks): claim for claim in claims if (who := claim.record.launcher)}
    for ancestor in process.ancestry if launched else ():
        if ancestor in launched:
            return launched[ancestor]
    of_pod = [claim for claim in claims if process.pod is not None and claim.record.pod_uid == process.pod]
    if len(of_pod) <= 1:
        return of_pod[0] if of_pod else None
    return next((claim for claim in of_pod if claim.record.key == process.folder), None)


def _mounted_at(mountinfo: str, mount_point: str) -> str:
    """Return the name of the folder last mounted at a path; empty if there is none."""
    lines = [line.split() for line in mountinfo.splitlines()]
    found = [line[_ROOT] for line in lines if len(line) > _MOUNT_POINT and line[_MOUNT_POINT] == mount_point]
    return Path(found[-1]).name if found else ""
