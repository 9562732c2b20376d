"""A control plane whose nodes are simulated by kwok: real etcd, kube-apiserver and kube-scheduler, no
kubelet.

kube-controller-manager runs where a benchmark wants it. Its node lifecycle controller waits as long for a sign of life as
kwok takes between two.
"""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from hack.cluster.control_plane import LoopbackControlPlane
from hack.cluster.kwok import PlayedNodes
from tests.performance.scale.process_figures import ProcessFigures, figures_of_process

REPOSITORY = Path(__file__).parents[3]

_LEASE_SECONDS = 1200
"""A real kubelet renews its lease every 10 s, which no watch here observes; a thousand of them from one
process would only cost CPU time."""


class ScaleCluster:
    """A context manager: the control plane, kube-scheduler and kwok; with `controllers` kube-controller-manager too."""

    def __init__(self, controllers: bool = False) -> None:
        self._controllers = controllers

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            plane = LoopbackControlPlane(controllers=self._controllers, node_grace_seconds=_LEASE_SECONDS)
            self._plane = undo.enter_context(plane)
            self._install_crds()
            stages = Path(__file__).parent / "kwok_stages.yaml"
            self._played = undo.enter_context(PlayedNodes(self._plane, stages, lease_seconds=_LEASE_SECONDS))
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
            ClusterError: one of them has ended.
        """
        found = {name: figures_of_process(pid) for name, pid in self._played.pids().items()}
        for name in self._plane.components:
            found[name] = figures_of_process(self._plane.pid(name))
        return found

    def _install_crds(self) -> None:
        kubectl = [str(self._plane.kubectl), "--kubeconfig", str(self.kubeconfig)]
        crds = ["apply", "--server-side", "-f", str(REPOSITORY / "crds")]
        subprocess.run([*kubectl, *crds], check=True, stdout=subprocess.DEVNULL)
        self._plane.wait_for_crds()
