"""Long-running processes of an embedded cluster: each starts detached in its own cgroup, by which it is found again.

There are no pid files: a component is alive when its cgroup holds a process that runs its program. That stays true
whatever was killed, and it cannot mistake a stranger that got the same pid.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hack.cluster import cgroups
from hack.cluster.probes import log_tail, wait_until
from hack.cluster.progress import ClusterError

_START_TIMEOUT_SECONDS = 30.0
_KILL_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Component:
    """A process of a cluster. `cgroup` holds it and its children, and nothing else."""

    name: str
    cgroup: str
    program: Path
    log: Path

    def pid(self) -> int | None:
        """The process that runs the program; None if there is none. If it has forked, the oldest."""
        alive = sorted(pid for pid in cgroups.processes(self.cgroup) if _runs(pid, self.program))
        return alive[0] if alive else None

    def start(
        self,
        command: Sequence[str | Path],
        *,
        inside: int | None = None,
        prefix: Sequence[str] = (),
        path: str = "",
    ) -> int:
        """Start the program in its own session and return its pid once it runs.

        `inside` is a process whose network and mount namespaces it enters, `prefix` a program that runs the command,
        `path` a folder that is put before PATH.
        """
        cgroups.ensure(self.cgroup)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        enter = enter_namespaces(inside) if inside else []
        # The intermediate shell ends at once, so the component has no parent here that it would have to outlive.
        script = f'{cgroups.join_script(self.cgroup)} && {{ setsid "$@" </dev/null >>"$LOG" 2>&1 & }}'
        done = subprocess.run(
            ["/bin/sh", "-c", script, "sh", *enter, *prefix, *map(str, command)],
            env={**component_environment(path), "LOG": str(self.log)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ClusterError(f"{self.name} could not be started: {done.stderr.strip()}{log_tail(self.log)}")
        wait_until(
            lambda: self.pid() is not None,
            f"{self.name} starting",
            _START_TIMEOUT_SECONDS,
            still_possible=lambda: bool(cgroups.processes(self.cgroup)) or self.pid() is not None,
            log=self.log,
        )
        pid = self.pid()
        if pid is None:
            raise ClusterError(f"{self.name} ended right after its start{log_tail(self.log)}")
        return pid

    def kill(self) -> None:
        """kill -9 the program alone, until its ports are free. Its children continue, as a container's shim does without containerd."""
        for pid in cgroups.processes(self.cgroup):
            if _runs(pid, self.program):
                _kill_and_wait(pid, self.name)


def enter_namespaces(pid: int) -> list[str]:
    """Returns the command prefix that runs a program in the network and mount namespaces of a process."""
    return ["nsenter", f"--net=/proc/{pid}/ns/net", f"--mount=/proc/{pid}/ns/mnt", "--"]


def component_environment(path: str = "") -> dict[str, str]:
    """Returns a component's environment: of the caller's, only the variables for finding programs."""
    system_path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": f"{path}:{system_path}" if path else system_path, "HOME": "/root", "LANG": "C.UTF-8"}


def _runs(pid: int, program: Path) -> bool:
    try:
        executable = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False  # it ended, or is a zombie
    # By name, not by path: a start of a newer build must find the running one of an older build. The cgroup is exclusive.
    return Path(executable.removesuffix(" (deleted)")).name == Path(os.path.realpath(program)).name


def _kill_and_wait(pid: int, name: str) -> None:
    """A dying process loses its program first and its sockets later, so only its pidfd says that it is gone (pidfd_open(2))."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        ended, _, _ = select.select([process], [], [], _KILL_TIMEOUT_SECONDS)
    except ProcessLookupError:
        return
    finally:
        os.close(process)
    if not ended:
        raise ClusterError(f"{name} (process {pid}) does not end after kill -9: see /proc/{pid}/stack")
