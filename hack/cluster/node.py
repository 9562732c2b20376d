"""A node: its own network and mount namespaces with containerd, a kubelet and kube-proxy.

The namespaces live as long as the node's processes. The first of them, the holder, makes the node's file systems and
sleeps; all others enter its namespaces. So a node leaves nothing on this machine once its processes are gone:

    /run        a tmpfs: containerd's and Laneway's sockets, as empty after stop and start as after a reboot
    /var/lib    the node's own folder: kubelet, containerd, Laneway, each at its usual path
    /var/log    the node's own folder: the containers' logs
    /var/lib/laneway-shared    the same for all nodes of the cluster
"""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from hack.cluster import cgroups
from hack.cluster.cache import cache_folder
from hack.cluster.commands import run, succeeds
from hack.cluster.images import import_archive, pause_archive
from hack.cluster.layout import NodePlan
from hack.cluster.node_configuration import NodeCredentials, NodePaths, write_configuration
from hack.cluster.probes import wait_until
from hack.cluster.processes import Component, component_environment, enter_namespaces
from hack.cluster.progress import ClusterError

NODE_COMPONENTS = ("containerd", "kubelet", "kube-proxy")

_CONTAINERD_TIMEOUT_SECONDS = 60.0
_PRIVATE_ROOTS = ("/var/lib", "/var/log")

# Settings that the kubelet writes into the kernel for the whole machine. In the node's namespace, mounted files with these
# values hide the real ones, so the kubelet finds them set and the machine's own settings stay unchanged.
_KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


@dataclass(frozen=True)
class Node:
    """The running side of a NodePlan. `programs` are the paths of the built programs by name."""

    plan: NodePlan
    programs: dict[str, Path]

    @property
    def paths(self) -> NodePaths:
        return NodePaths(self.plan.folder)

    @property
    def holder(self) -> Component:
        """The process that holds the namespaces: a shell until the node's file systems are complete, then `sleep`."""
        sleep = shutil.which("sleep", path=component_environment()["PATH"])
        if sleep is None:
            raise ClusterError("the program 'sleep' is not on PATH: install coreutils")
        return self._component("holder", Path(sleep))

    def component(self, name: str) -> Component:
        if name not in NODE_COMPONENTS:
            raise ClusterError(f"no component {name!r} on a node: write one of {', '.join(NODE_COMPONENTS)}")
        return self._component(name, self.programs[name])

    def _component(self, name: str, program: Path) -> Component:
        qualified = f"{self.plan.name}/{name}"
        return Component(qualified, f"{self.plan.cgroup}/{name}", program, self.plan.cluster.log(qualified))

    def ensure_namespaces(self) -> int:
        """Create the namespaces if they do not exist; returns the pid of their holder.

        A holder that was killed takes the node with it: what still runs in its namespaces could not be joined again.
        """
        pid = self.holder.pid()
        if pid is not None:
            return pid
        self.stop()
        self._make_folders()
        script = self.plan.folder / "make-file-systems.sh"
        script.write_text(self._file_system_script())
        new = ("unshare", "--net", "--mount", "--propagation", "private", "--")
        return self.holder.start(["/bin/sh", "-eu", script], prefix=new)

    def _make_folders(self) -> None:
        folder = self.plan.folder
        for private in ("kubelet", "containerd", "laneway", "laneway-shared"):
            (folder / "var-lib" / private).mkdir(parents=True, exist_ok=True)
        for log in ("pods", "containers"):
            (folder / "var-log" / log).mkdir(parents=True, exist_ok=True)
        for setting, value in _KERNEL_SETTINGS.items():
            file = folder / "proc-sys" / setting
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{value}\n")
        self.plan.cluster.shared_folder.mkdir(parents=True, exist_ok=True)
        # Pods of any user write their checkpoints there.
        self.plan.cluster.shared_folder.chmod(0o1777)

    def _file_system_script(self) -> str:
        folder = self.plan.folder
        lines = [f"mount --bind '{self.plan.cluster.shared_folder}' '{folder}/var-lib/laneway-shared'"]
        lines += self._keep_visible(self.plan.cluster.folder) + self._keep_visible(cache_folder())
        for setting in _KERNEL_SETTINGS:
            lines.append(
                f"[ ! -e /proc/sys/{setting} ] || mount --bind '{folder}/proc-sys/{setting}' /proc/sys/{setting}"
            )
        lines += [
            f"mount --rbind '{folder}/{root.strip('/').replace('/', '-')}' {root}" for root in _PRIVATE_ROOTS
        ]
        lines.append("mount -t tmpfs -o mode=755 tmpfs /run")
        # The kubelet propagates mounts into pods that ask for it, and only from a shared mount.
        lines += [f"mount --make-rshared {root}" for root in (*_PRIVATE_ROOTS, "/run")]
        lines += ["mkdir -p /run/laneway /run/containerd /run/netns", "exec sleep infinity"]
        return "\n".join(lines) + "\n"

    def _keep_visible(self, needed: Path) -> list[str]:
        """Mount folders that the node's processes read again if they lie below a hidden folder."""
        if needed.is_relative_to("/run"):
            raise ClusterError(
                f"{needed} lies below /run, which each node replaces: set LANEWAY_STATE and LANEWAY_CACHE elsewhere"
            )
        for root in _PRIVATE_ROOTS:
            if needed.is_relative_to(root):
                shown = self.plan.folder / root.strip("/").replace("/", "-") / needed.relative_to(root)
                return [f"mkdir -p '{shown}'", f"mount --bind '{needed}' '{shown}'"]
        return []

    def start_containerd(self) -> None:
        """containerd with the pause image in it."""
        component = self.component("containerd")
        if component.pid() is None:
            # Without its binary's folder on PATH it does not find the shim.
            shim_folder = self.programs["containerd-shim-runc-v2"].parent
            component.start(
                [component.program, "--config", self.paths.containerd_config],
                inside=self.ensure_namespaces(),
                path=str(shim_folder),
            )
        wait_until(
            lambda: succeeds([*self.ctr(), "version"]),
            f"{component.name} answering",
            _CONTAINERD_TIMEOUT_SECONDS,
            still_possible=lambda: component.pid() is not None,
            log=component.log,
        )
        import_archive(pause_archive(), {self.plan.name: self.ctr()})

    def start_kubelet(self) -> None:
        component = self.component("kubelet")
        if component.pid() is None:
            command: list[str | Path] = [
                component.program,
                f"--config={self.paths.kubelet_config}",
                f"--kubeconfig={self.paths.kubelet_kubeconfig}",
                f"--hostname-override={self.plan.name}",
                f"--node-ip={self.plan.address}",
            ]
            component.start(command, inside=self.ensure_namespaces())

    def start_kube_proxy(self) -> None:
        component = self.component("kube-proxy")
        if component.pid() is None:
            command: list[str | Path] = [
                component.program,
                f"--config={self.paths.kube_proxy_config}",
                f"--hostname-override={self.plan.name}",
            ]
            component.start(command, inside=self.ensure_namespaces())

    def configure(self, credentials: NodeCredentials) -> None:
        """Write the configuration files of the node's components."""
        write_configuration(self.plan, self.paths, credentials)

    def stop(self) -> None:
        """Kill everything on the node at once, pods included, as a power cut does. The node's disk stays."""
        cgroups.kill(self.plan.cgroup)
        cgroups.remove(self.plan.cgroup)

    def ctr(self) -> list[str]:
        """Returns the command prefix of containerd's client for Kubernetes' images and containers."""
        inside = enter_namespaces(self._holder_pid())
        return [*inside, str(self.programs["ctr"]), "--namespace", "k8s.io"]

    def run(self, command: list[str]) -> str:
        """Returns the standard output of a program on the node that must succeed."""
        return run([*enter_namespaces(self._holder_pid()), *command])

    def become(self, command: list[str]) -> None:
        """Replace this process by a program on the node; it ends with the node."""
        cgroup = f"{self.plan.cgroup}/exec"
        cgroups.ensure(cgroup)
        script = f'{cgroups.join_script(cgroup)} && exec "$@"'
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execv("/bin/sh", ["/bin/sh", "-c", script, "sh", *enter_namespaces(self._holder_pid()), *command])

    def _holder_pid(self) -> int:
        pid = self.holder.pid()
        if pid is None:
            raise ClusterError(
                f"node {self.plan.name} does not run: start it with 'python -m hack.cluster start-node {self.plan.name}'"
            )
        return pid
