"""Whose is a process that uses a GPU? Of the container that its session says, else of the job whose launcher started it, else of
that which its cgroup names.

Where a pod has several containers with a share of one GPU, the folder tells that a process sees mounted at /run/laneway: by
/proc/PID/mountinfo, which anybody may read. A container can mislead that only towards its own pod's others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from laneway.api.names import CONTAINER_LANEWAY_FOLDER
from laneway.api.pod_cgroup import pod_of
from laneway.node_agent.enforcement.breach import Claim
from laneway.node_agent.recovery.processes import lineage

_ROOT, _MOUNT_POINT = 3, 4
"""Fields of a line of /proc/PID/mountinfo (proc(5))."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a process is."""

    pod: str | None
    folder: str
    """The name of the container's folder that it sees, which is the container's key; empty where it sees none."""

    is_ours: bool
    """It is in the agent's own cgroup: the MPS server is."""

    lineage: tuple[tuple[int, int], ...] = ()
    """It and its ancestors, the nearest first, by pid and start."""


@dataclass(frozen=True, slots=True)
class Owned:
    """The memory of one GPU's processes, sorted by whose they are."""

    by_claim: Mapping[tuple[str, str], Mapping[int, int]] = field(default_factory=dict)
    """Bytes by pid, by the claim's key."""

    strangers: Mapping[int, int] = field(default_factory=dict)
    """Bytes by pid, of processes that nobody's claim covers."""


class Owners:
    """Knows whose the processes of one GPU are. A process that stays is looked up once."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._places: dict[int, _Place] = {}

    def sort(self, process_bytes: Mapping[int, int], claims: Collection[Claim]) -> Owned:
        """Say whose the processes of a reading are. Those that have ended meanwhile are left out."""
        by_session = {pid: claim for claim in claims for pid in claim.session_pids}
        places: dict[int, _Place] = {}
        by_claim: dict[tuple[str, str], dict[int, int]] = {}
        strangers: dict[int, int] = {}
        for pid, used_bytes in process_bytes.items():
            claim = by_session.get(pid)
            if claim is None:
                try:
                    places[pid] = self._known(pid) or self._look_up(pid)
                except OSError:
                    continue
                claim = _claim_of(places[pid], claims)
            if claim is not None:
                by_claim.setdefault(claim.key, {})[pid] = used_bytes
            elif not places[pid].is_ours:
                strangers[pid] = used_bytes
        self._places = places
        return Owned(by_claim, strangers)

    def _known(self, pid: int) -> _Place | None:
        return self._places.get(pid) if (self._proc / str(pid)).exists() else None

    def _look_up(self, pid: int) -> _Place:
        cgroup = self._read(str(pid), "cgroup")
        return _Place(
            pod=pod_of(cgroup),
            folder=_mounted_at(self._read(str(pid), "mountinfo"), CONTAINER_LANEWAY_FOLDER),
            is_ours=cgroup == self._read("self", "cgroup"),
            lineage=lineage(pid, self._proc),
        )

    def _read(self, process: str, name: str) -> str:
        return (self._proc / process / name).read_text(encoding="utf-8", errors="replace")


def _claim_of(place: _Place, claims: Collection[Claim]) -> Claim | None:
    launched = {(who.pid, who.start_ticks): claim for claim in claims if (who := claim.record.launcher)}
    for ancestor in place.lineage if launched else ():
        if ancestor in launched:
            return launched[ancestor]
    of_pod = [claim for claim in claims if place.pod is not None and claim.record.pod_uid == place.pod]
    if len(of_pod) <= 1:
        return of_pod[0] if of_pod else None
    return next((claim for claim in of_pod if claim.record.key == place.folder), None)


def _mounted_at(mountinfo: str, mount_point: str) -> str:
    """Return the name of the folder that was mounted at a path last; empty where none is."""
    lines = [line.split() for line in mountinfo.splitlines()]
    found = [line[_ROOT] for line in lines if len(line) > _MOUNT_POINT and line[_MOUNT_POINT] == mount_point]
    return Path(found[-1]).name if found else ""
