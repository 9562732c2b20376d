"""etcd and kube-apiserver on loopback, for integration tests: real API, TLS and RBAC, no node, no root.

    with LoopbackControlPlane() as cluster:
        subprocess.run([cluster.kubectl, "--kubeconfig", cluster.kubeconfig, "get", "namespaces"], check=True)
        cluster.kill("kube-apiserver")          # kill -9: what a crash of the API server looks like to clients
        cluster.start("kube-apiserver")         # the same address and data

Its ports are its own until it ends, also while a component is away.

The processes die with the thread that started them (the kernel sees to it), so a killed test leaves nothing running.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from hack.cluster.build import ensure_built
from hack.cluster.commands import die_with_parent
from hack.cluster.components import (
    NODE_GRACE_SECONDS,
    ControlPlaneFiles,
    Endpoints,
    apiserver_command,
    controller_manager_command,
    etcd_command,
)
from hack.cluster.held_ports import held_ports
from hack.cluster.inotify_limit import raised_limit
from hack.cluster.probes import answers_ok, client_context, wait_until
from hack.cluster.progress import ClusterError

_START_TIMEOUT_SECONDS = 180.0
"""An API server takes seconds of processor time to start, and several may start on a busy machine. One that ends is not waited for."""

_ADDRESS = "127.0.0.1"


class LoopbackControlPlane:
    """A context manager; see the module's docstring. Not thread-safe.

    `controllers=True` also runs kube-controller-manager: service accounts, garbage collection by owner references
    and the deletion of namespaces then work. Without it pods may name no service account that has not been made.
    It takes a node for dead that has shown no sign of life for `node_grace_seconds`.
    """

    def __init__(self, *, controllers: bool = False, node_grace_seconds: int = NODE_GRACE_SECONDS) -> None:
        self._names = ["etcd", "kube-apiserver"] + (["kube-controller-manager"] if controllers else [])
        self._controllers = controllers
        self._node_grace_seconds = node_grace_seconds
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        self._programs = ensure_built([*self._names, "kubectl"])
        self.folder = Path(tempfile.mkdtemp(prefix="laneway-control-plane-"))
        with ExitStack() as undo:
            undo.enter_context(raised_limit())
            self.endpoints = _endpoints(undo.enter_context(held_ports(_ADDRESS, 4)))
            undo.callback(self._remove)
            self.files = ControlPlaneFiles(self.folder, "laneway-loopback", self.endpoints)
            self.files.admin_kubeconfig()
            for name in self._names:
                self.start(name)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def _remove(self) -> None:
        for name in reversed(list(self._processes)):
            self.kill(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def components(self) -> tuple[str, ...]:
        """The names of its programs."""
        return tuple(self._names)

    @property
    def kubectl(self) -> Path:
        """The kubectl of the same version."""
        return self._programs["kubectl"]

    @property
    def kubeconfig(self) -> Path:
        """An administrator's kubeconfig. It names no other file, so it can be copied."""
        return self.folder / "kubeconfig"

    @property
    def url(self) -> str:
        return self.endpoints.apiserver_url

    @property
    def authority(self) -> Path:
        """The certificate with which clients verify the API server."""
        return self.files.authority.certificate

    def kubeconfig_for(self, user: str, group: str = "") -> Path:
        """Returns a kubeconfig of a user (and groups) with only the rights that RBAC grants."""
        return self.files.kubeconfig(f"users/{user.replace(':', '-')}", user, group, embed=True)

    def wait_for_crds(self) -> None:
        """Waits until the API server serves every CRD. A wait of kubectl fails on a CRD without conditions."""
        wait_until(self._serves_all_crds, "all CRDs becoming established", _START_TIMEOUT_SECONDS)

    def _serves_all_crds(self) -> bool:
        listed = self._get("crd", "-o", "json")
        listed.check_returncode()
        crds = json.loads(listed.stdout)["items"]
        # An established CRD's objects cannot be listed until its storage is initialised: 429 on a busy machine.
        return all(
            any(
                (each["type"], each["status"]) == ("Established", "True")
                for each in crd.get("status", {}).get("conditions") or ()
            )
            and not self._get(crd["metadata"]["name"], "-A").returncode
            for crd in crds
        )

    def _get(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [str(self.kubectl), "--kubeconfig", str(self.kubeconfig), "get", *arguments]
        return subprocess.run(command, capture_output=True, check=False)

    def log(self, name: str) -> Path:
        """The log of a component, kept until the context ends."""
        return self.folder / f"{name}.log"

    def pid(self, name: str) -> int:
        """The process of a component that runs."""
        return self._processes[name].pid

    def start(self, name: str) -> None:
        """Start a component that is not running and wait until it is healthy."""
        if name in self._processes:
            raise ClusterError(f"{name} already runs: kill({name!r}) comes first")
        with self.log(name).open("ab") as log:
            command = [*die_with_parent(), *self._command(name)]
            process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._processes[name] = process
        wait_until(
            self._health(name),
            f"{name} on {self.endpoints.address} becoming healthy",
            _START_TIMEOUT_SECONDS,
            still_possible=lambda: process.poll() is None,
            log=self.log(name),
        )

    def kill(self, name: str) -> None:
        """kill -9 a component and wait until its process has ended."""
        if name not in self._names:
            raise ClusterError(f"no component {name!r}: write one of {', '.join(self._names)}")
        process = self._processes.pop(name, None)
        if process is not None:
            process.kill()
            process.wait()

    def _command(self, name: str) -> list[str]:
        program = self._programs[name]
        if name == "etcd":
            return etcd_command(program, self.files, self.folder / "etcd")
        if name == "kube-apiserver":
            # Where no controller makes the service account "default", the admission plugin that wants it refuses every pod.
            disabled = () if self._controllers else ("ServiceAccount",)
            return apiserver_command(program, self.files, disabled_admission=disabled, publish_endpoint=False)
        return controller_manager_command(program, self.files, self._node_grace_seconds)

    def _health(self, name: str) -> Callable[[], bool]:
        endpoints, files = self.endpoints, self.files
        if name == "etcd":
            context = client_context(files.etcd_authority.certificate, files.etcd_client())
            return lambda: answers_ok(endpoints.address, endpoints.etcd_client_port, "/health", context)
        context = client_context(files.authority.certificate, files.admin())
        port = endpoints.apiserver_port if name == "kube-apiserver" else endpoints.controller_manager_port
        path = "/readyz" if name == "kube-apiserver" else "/healthz"
        return lambda: answers_ok(endpoints.address, port, path, context)


def _endpoints(ports: Sequence[int]) -> Endpoints:
    apiserver, etcd_client, etcd_peer, controller_manager = ports
    return Endpoints(
        address=_ADDRESS,
        service_cidr="10.96.0.0/16",
        service_gateway="10.96.0.1",
        apiserver_port=apiserver,
        etcd_client_port=etcd_client,
        etcd_peer_port=etcd_peer,
        controller_manager_port=controller_manager,
    )
