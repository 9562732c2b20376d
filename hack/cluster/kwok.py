"""Nodes simulated by kwok beside a control plane on loopback. A real kube-scheduler binds their pods; no kubelet runs them.

with LoopbackControlPlane() as plane, PlayedNodes(plane, Path("stages.yaml")):
    ...                                     # every Node with FAKE_NODES' annotation is played as the stages say
"""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from hack.cluster.build import ensure_built
from hack.cluster.commands import die_with_parent
from hack.cluster.components import scheduler_command
from hack.cluster.control_plane import LoopbackControlPlane
from hack.cluster.probes import log_tail
from hack.cluster.progress import ClusterError

FAKE_NODES = "kwok.x-k8s.io/node=fake"
"""The annotation of nodes that kwok simulates."""

_QUERIES_PER_SECOND = 2000
"""Requests per second of kube-scheduler; its default of 50 would be the bottleneck."""


class PlayedNodes:
    """A context manager: kube-scheduler and kwok, which die with the thread that started them."""

    def __init__(self, plane: LoopbackControlPlane, stages: Path, *, lease_seconds: int = 40) -> None:
        """Simulate nodes by ``stages`` (kwok's configuration); each renews its lease four times in ``lease_seconds``."""
        self._plane = plane
        self._stages = stages
        self._lease_seconds = lease_seconds
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        programs = ensure_built(["kube-scheduler", "kwok"])
        with ExitStack() as undo:
            undo.callback(self._stop)
            self._start("kube-scheduler", self._scheduler(programs["kube-scheduler"]))
            self._start("kwok", self._kwok(programs["kwok"]))
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def log(self, name: str) -> Path:
        """Return the log of kube-scheduler or kwok, kept until the control plane ends."""
        return self._plane.folder / f"{name}.log"

    def pids(self) -> dict[str, int]:
        """Return the processes, by name.

        Raises:
            ClusterError: one of them has ended.
        """
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise ClusterError(f"{name} ended with status {process.returncode}{log_tail(self.log(name))}")
        return {name: process.pid for name, process in self._processes.items()}

    def _scheduler(self, program: Path) -> list[str]:
        command = scheduler_command(program, self._plane.files)
        config = self._plane.folder / "kube-scheduler.yaml"
        kubeconfig = self._plane.files.kubeconfig("kubeconfigs/kube-scheduler", "system:kube-scheduler")
        connection = {
            "kubeconfig": str(kubeconfig),
            "qps": _QUERIES_PER_SECOND,
            "burst": _QUERIES_PER_SECOND,
        }
        found = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": connection,
            "leaderElection": {"leaderElect": False},
        }
        config.write_text(yaml.safe_dump(found))
        # Nobody asks it for its health, and another control plane on loopback may have the port.
        kept = (flag for flag in command if not flag.startswith(("--kubeconfig=", "--secure-port=")))
        return [*kept, f"--config={config}", "--secure-port=0"]

    def _kwok(self, program: Path) -> list[str]:
        return [
            str(program),
            f"--kubeconfig={self._plane.kubeconfig}",
            f"--config={self._stages}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-annotation-selector={FAKE_NODES}",
            f"--node-lease-duration-seconds={self._lease_seconds}",
            "--cidr=10.0.0.0/8",
            "--node-ip=127.0.0.1",
        ]

    def _start(self, name: str, command: list[str]) -> None:
        with self.log(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*die_with_parent(), *command],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "HOME": str(self._plane.folder)},
            )

    def _stop(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._processes.clear()
