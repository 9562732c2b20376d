"""A control plane whose nodes are played by kwok: real etcd, kube-apiserver and kube-scheduler, no kubelet.

kube-controller-manager does not run: nothing of what is measured needs it, and two cores are few. What it would do that matters here is done by
hand: a node's taint for not being ready is taken away.
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
from tests.performance.scale.process_figures import ProcessFigures, figures_of_process

REPOSITORY = Path(__file__).parents[3]
FAKE_NODES = "kwok.x-k8s.io/node=fake"
"""The annotation of the nodes that kwok plays."""

_QUERIES_PER_SECOND = 2000
"""Of kube-scheduler, whose default of 50 a second would be what is measured."""


class ScaleCluster:
    """A context manager: the control plane, kube-scheduler and kwok."""

    def __enter__(self) -> Self:
        self._programs = ensure_built(["kube-scheduler", "kwok"])
        with ExitStack() as undo:
            self._plane = undo.enter_context(LoopbackControlPlane())
            self._processes: dict[str, subprocess.Popen[bytes]] = {}
            undo.callback(self._stop)
            self._install_crds()
            self._start("kube-scheduler", self._scheduler())
            self._start("kwok", self._kwok())
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    @property
    def kubeconfig(self) -> Path:
        """An administrator's."""
        return self._plane.kubeconfig

    def figures(self) -> dict[str, ProcessFigures]:
        """Return what each process of the control plane has used so far.

        Raises:
            RuntimeError: one of them has ended.
        """
        for name, process in self._processes.items():
            if process.poll() is not None:
                raise RuntimeError(f"{name} ended with status {process.returncode}{log_tail(self.log(name))}")
        found = {name: figures_of_process(process.pid) for name, process in self._processes.items()}
        for name in ("etcd", "kube-apiserver"):
            found[name] = figures_of_process(self._plane.pid(name))
        return found

    def log(self, name: str) -> Path:
        """Return the log of kube-scheduler or kwok."""
        return self._plane.folder / f"{name}.log"

    def _install_crds(self) -> None:
        kubectl = [str(self._plane.kubectl), "--kubeconfig", str(self.kubeconfig)]
        crds = ["apply", "--server-side", "-f", str(REPOSITORY / "crds")]
        subprocess.run([*kubectl, *crds], check=True, stdout=subprocess.DEVNULL)
        wait = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"]
        subprocess.run([*kubectl, *wait], check=True, stdout=subprocess.DEVNULL)

    def _scheduler(self) -> list[str]:
        command = scheduler_command(self._programs["kube-scheduler"], self._plane.files)
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
        return [*(flag for flag in command if not flag.startswith("--kubeconfig=")), f"--config={config}"]

    def _kwok(self) -> list[str]:
        return [
            str(self._programs["kwok"]),
            f"--kubeconfig={self.kubeconfig}",
            f"--config={Path(__file__).parent / 'kwok_stages.yaml'}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-annotation-selector={FAKE_NODES}",
            # A real kubelet renews its lease every 10 s, without any object being watched for it by anybody; so many of them from one
            # process would only take processor time away.
            "--node-lease-duration-seconds=1200",
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
