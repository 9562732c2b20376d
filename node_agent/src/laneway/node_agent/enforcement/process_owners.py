"""Finds the container that owns a process on a GPU: by its session, else by its job's launcher, else by
its pod's cgroup and its container's folder.

The cgroup names the pod, and the folder mounted at /run/laneway names the container: only containers with a
share have one. It is read from /proc/PID/mountinfo, which anybody may read, and in a sandbox inside the
container (chroot) from that of an ancestor. A container could falsify it only towards other containers of its
own pod. Both then use up one grace.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from laneway.api.names import CONTAINER_LANEWAY_FOLDER
from laneway.api.pod_cgroup import container_of, pod_of
from laneway.node_agent.enforcement.violation import Claim
from laneway.node_agent.processes import ancestry, running_pids, start_ticks
from laneway.node_agent.sessions.identity import UnknownPeerError

_ROOT, _MOUNT_POINT = 3, 4
"""Fields of a line of /proc/PID/mountinfo (proc(5))."""


@dataclass(frozen=True, slots=True)
class PodContainer:
    """A container by its cgroup. A container that the kubelet starts again has another one."""

    pod: str
    """Its pod's uid."""

    cgroup: str
    """The name of its cgroup within the pod's."""


@dataclass(frozen=True, slots=True)
class _ProcessInfo:
    """What is known of a process."""

    container: PodContainer | None
    """None: it is in no pod."""

    folder: str
    """The name of the container folder that it sees, which is the container's key; empty if it sees none."""

    is_agents: bool
    """It is in the agent's own cgroup or pod, or in the pod of the MPS control daemon, like the MPS server."""

    ancestry: tuple[tuple[int, int], ...] = ()
    """The process and its ancestors, the nearest first, by pid and start."""

    @property
    def start_ticks(self) -> int | None:
        """Return when it started, in clock ticks since boot; None if it had ended."""
        return self.ancestry[0][1] if self.ancestry else None


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """The memory of one GPU's processes, by owner: bytes by pid."""

    by_claim: Mapping[tuple[str, str], Mapping[int, int]] = field(default_factory=dict)
    """Of containers with a share of the GPU, by the claim's key."""

    strays: Mapping[PodContainer, Mapping[int, int]] = field(default_factory=dict)
    """Of containers without a share of the GPU."""

    foreign: Mapping[int, int] = field(default_factory=dict)
    """Of processes in no pod, or whose container is not known yet."""

    containers: Mapping[tuple[str, str], frozenset[PodContainer]] = field(default_factory=dict)
    """The containers that the processes of a claim are in; empty outside pods."""


class ProcessOwners:
    """Attributes the processes of one GPU to containers. A process is looked up once."""

    def __init__(self, proc: Path = Path("/proc"), mps_pid_file: Path | None = None) -> None:
        """Start without processes.

        Args:
            proc: where the kernel shows processes.
            mps_pid_file: where the MPS control daemon writes its pid; only the daemon can write there.
        """
        self._proc = proc
        self._mps_pid_file = mps_pid_file
        self._processes: dict[int, _ProcessInfo] = {}

    def attribute(self, process_bytes: Mapping[int, int], claims: Collection[Claim]) -> ProcessMemory:
        """Attribute the processes of a reading. Those that have ended meanwhile are left out."""
        by_session = {pid: claim for claim in claims for pid in claim.session_pids}
        processes: dict[int, _ProcessInfo] = {}
        by_claim: dict[tuple[str, str], dict[int, int]] = {}
        containers: dict[tuple[str, str], frozenset[PodContainer]] = {}
        strays: dict[PodContainer, dict[int, int]] = {}
        foreign: dict[int, int] = {}
        for pid, used_bytes in process_bytes.items():
            info = self._cached(pid) or self._look_up(pid)
            if info is not None:
                processes[pid] = info
            claim = by_session.get(pid) or (None if info is None else _claim_of(info, claims))
            if claim is not None:
                by_claim.setdefault(claim.key, {})[pid] = used_bytes
                if info is not None and info.container is not None:
                    containers[claim.key] = containers.get(claim.key, frozenset()) | {info.container}
            elif info is None or info.is_agents:
                continue
            elif info.container is None or _may_be_of_unknown_pod(info, claims):
                foreign[pid] = used_bytes
            else:
                strays.setdefault(info.container, {})[pid] = used_bytes
        self._processes = processes
        return ProcessMemory(by_claim, strays, foreign, containers)

    def _cached(self, pid: int) -> _ProcessInfo | None:
        """Return what is known of a process, unless another one has its pid by now."""
        known = self._processes.get(pid)
        if known is None or not (self._proc / str(pid)).exists():
            return None
        return known if start_ticks(pid, self._proc) == known.start_ticks else None

    def _look_up(self, pid: int) -> _ProcessInfo | None:
        """Return what is known of a process; None if it has ended."""
        try:
            cgroup, own = self._read(str(pid), "cgroup"), self._read("self", "cgroup")
            ancestors = ancestry(pid, self._proc)
            container = _container_of(cgroup)
            return _ProcessInfo(
                container=container,
                folder=self._folder_of(pid, container, ancestors),
                is_agents=cgroup == own
                or (container is not None and container.pod in (pod_of(own), self._mps_pod())),
                ancestry=ancestors,
            )
        except OSError:
            return None

    def _mps_pod(self) -> str | None:
        """Return the uid of the MPS control daemon's pod; None if it runs in none, or not at all."""
        if self._mps_pid_file is None:
            return None
        try:
            return pod_of(self._read(self._mps_pid_file.read_text().strip() or "self", "cgroup"))
        except OSError:
            return None

    def _folder_of(
        self, pid: int, container: PodContainer | None, ancestors: Iterable[tuple[int, int]]
    ) -> str:
        """Return the container folder that the process sees, else its nearest ancestor in its container."""
        folder = _mounted_at(self._read(str(pid), "mountinfo"), CONTAINER_LANEWAY_FOLDER)
        for ancestor, _ in ancestors:
            if folder or container is None or _container_of(self._read(str(ancestor), "cgroup")) != container:
                break
            folder = _mounted_at(self._read(str(ancestor), "mountinfo"), CONTAINER_LANEWAY_FOLDER)
        return folder

    def _read(self, process: str, name: str) -> str:
        return (self._proc / process / name).read_text(encoding="utf-8", errors="replace")


def processes_of(containers: Collection[PodContainer], proc: Path = Path("/proc")) -> frozenset[int]:
    """Return the processes of containers, whether or not they use a GPU."""

    def container_of_process(pid: int) -> PodContainer | None:
        try:
            return _container_of((proc / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return None

    return frozenset(pid for pid in running_pids(proc) if container_of_process(pid) in containers)


def check_stray(pid: int, container: PodContainer, proc: Path = Path("/proc")) -> None:
    """Check that a process is in a container.

    Raises:
        UnknownPeerError: it is not, or its cgroup cannot be read.
    """
    try:
        cgroup = (proc / str(pid) / "cgroup").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UnknownPeerError(f"the cgroup of process {pid} cannot be read: {error.strerror}") from error
    if _container_of(cgroup) != container:
        raise UnknownPeerError(
            f"process {pid} is not in the container {container.cgroup} of pod {container.pod}"
        )


def _container_of(cgroup: str) -> PodContainer | None:
    pod = pod_of(cgroup)
    return None if pod is None else PodContainer(pod, container_of(cgroup))


def _claim_of(process: _ProcessInfo, claims: Collection[Claim]) -> Claim | None:
    launched = {(who.pid, who.start_ticks): claim for claim in claims if (who := claim.record.launcher)}
    for ancestor in process.ancestry if launched else ():
        if ancestor in launched:
            return launched[ancestor]
    if process.container is None:
        return None
    of_container = (claim for claim in claims if claim.record.key == process.folder)
    return next((claim for claim in of_container if claim.record.pod_uid == process.container.pod), None)


def _may_be_of_unknown_pod(process: _ProcessInfo, claims: Collection[Claim]) -> bool:
    """Return whether a container's pod is unknown still, and the process may be that container's."""
    nameless = {
        claim.record.key for claim in claims if not claim.record.pod_uid and not claim.record.launcher
    }
    return process.folder in nameless or (bool(nameless) and not process.folder)


def _mounted_at(mountinfo: str, mount_point: str) -> str:
    """Return the name of the folder last mounted at a path; empty if there is none."""
    lines = [line.split() for line in mountinfo.splitlines()]
    found = [line[_ROOT] for line in lines if len(line) > _MOUNT_POINT and line[_MOUNT_POINT] == mount_point]
    return Path(found[-1]).name if found else ""
