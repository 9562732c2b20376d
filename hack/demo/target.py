"""The cluster of the demo and the end-to-end tests, independent of its backend."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from hack.cluster import embedded
from hack.cluster.__main__ import main as cluster_command
from hack.cluster.backends import Backend, choose_here, kubeconfig_of
from hack.cluster.build import built
from hack.cluster.kubectl import Kubectl
from hack.cluster.progress import ClusterError


@dataclass(frozen=True)
class Target:
    """A running cluster."""

    name: str
    backend: Backend
    kubeconfig: Path

    @property
    def kubectl(self) -> Kubectl:
        """The pinned kubectl for this cluster."""
        return Kubectl(built("kubectl"), self.kubeconfig)

    @property
    def embedded(self) -> embedded.RunningCluster | None:
        """The cluster's components, to inspect, kill and start them; None for another backend."""
        return embedded.open_cluster(self.name) if self.backend is Backend.EMBEDDED else None

    def load(self, archive: Path) -> None:
        """Load an image onto the nodes. With LANEWAY_IMAGES=there, the user's own cluster already has it.

        Raises:
            ClusterError: the nodes cannot be reached from here; the message says what to do instead.
        """
        if self.backend is Backend.KUBECONFIG and os.environ.get("LANEWAY_IMAGES") == "there":
            return
        running = self.embedded
        if running is not None:
            running.load_image(archive)
        else:
            _command("load-image", str(archive), "--name", self.name)


def bring_up(name: str, nodes: int) -> Target:
    """Start the components of the cluster that do not run.

    Raises:
        ClusterError: it does not start; the message says why.
    """
    choice = choose_here(name)
    _command("up", "--name", name, "--nodes", str(nodes))
    return Target(name, choice.backend, kubeconfig_of(name, choice))


def bring_up_embedded(name: str, nodes: int) -> Target:
    """Start an embedded cluster, even if this machine has another backend.

    Raises:
        ClusterError: it does not start; the message says why.
    """
    return Target(name, Backend.EMBEDDED, embedded.bring_up(name, nodes))


def _command(*arguments: str) -> None:
    # The command prints paths to standard output, which belongs to the demo.
    with contextlib.redirect_stdout(sys.stderr):
        status = cluster_command(arguments)
    if status != 0:
        raise ClusterError(
            f"python -m hack.cluster {' '.join(arguments)} ended with status {status} (see above)"
        )
