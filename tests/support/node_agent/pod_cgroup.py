"""A pod's cgroup as a kubelet makes it, for processes of tests: needs root."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Sequence

from hack.cluster import cgroups
from tests.support.node_agent.node import ENTER_CONTAINER, Container, PeerProcess


class PodCgroup:
    """The cgroups of a pod, in every hierarchy of the machine; removing them ends all their processes."""

    def __init__(self) -> None:
        self.uid = str(uuid.uuid4())
        self._root = f"laneway-test-{os.getpid()}-{self.uid[:8]}"
        self._pod = f"{self._root}/kubepods/burstable/pod{self.uid}"
        self._path = f"{self._pod}/c1"
        self._started: list[subprocess.Popen[str]] = []
        cgroups.ensure(self._path)

    def run(
        self, command: Sequence[str], container: Container | None = None, cgroup: str = "c1"
    ) -> subprocess.Popen[str]:
        """Start a process in the pod; it runs when this returns, and has printed a first line.

        Args:
            command: the program and its arguments.
            container: the container whose folder it sees; None: a container without a share.
            cgroup: the name of its container's cgroup.
        """
        path = f"{self._pod}/{cgroup}"
        cgroups.ensure(path)
        script = f'{cgroups.join_script(path)} && exec "$@"'
        line = ["sh", "-c", script, "sh"]
        if container is not None:
            line += ["unshare", "--mount", "--propagation", "private"]
            line += ["sh", "-c", ENTER_CONTAINER, "sh", str(container.folder)]
        started = subprocess.Popen([*line, *command], stdout=subprocess.PIPE, text=True)
        self._started.append(started)
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        return started

    def take(self, process: PeerProcess) -> None:
        """Put a process into the pod."""
        self.take_pid(process.pid)

    def take_pid(self, pid: int) -> None:
        """Put a process into the pod that no :class:`Container` started."""
        for hierarchy in cgroups.hierarchies():
            (hierarchy.mount_point / self._path / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        """End its processes, and remove it."""
        for started in self._started:
            started.kill()
            started.wait()
            if started.stdout is not None:
                started.stdout.close()
        cgroups.kill(self._root)
        cgroups.remove(self._root)
