"""The embedded cluster: starts its missing components in the order of their dependencies.

network ─▶ etcd ─▶ API server ─▶ controllers, scheduler, DNS, role bindings
                └▶ nodes: namespaces, containerd (while the API server starts) ─▶ kubelet, kube-proxy ─▶ Ready
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from hack.cluster.binaries import CONTROL_PLANE, NODES
from hack.cluster.build import ensure_built
from hack.cluster.components import (
    CLUSTER_DOMAIN,
    ControlPlaneFiles,
    apiserver_command,
    controller_manager_command,
    etcd_command,
    scheduler_command,
)
from hack.cluster.dns import DNS_USER, resolve, write_corefile
from hack.cluster.images import import_archive
from hack.cluster.inotify_limit import raise_limit
from hack.cluster.kubectl import Kubectl
from hack.cluster.layout import EmbeddedCluster, NodePlan, cluster_lock, existing_cluster
from hack.cluster.network import (
    claim_cluster,
    connect_node,
    ensure_bridge,
    route_pods_between,
    route_services,
)
from hack.cluster.node import NODE_COMPONENTS, Node
from hack.cluster.node_configuration import KUBE_PROXY_HEALTH_PORT, KUBELET_PORT, NodeCredentials
from hack.cluster.pki import Identity
from hack.cluster.probes import answers_ok, client_context, fetch, wait_until
from hack.cluster.processes import Component
from hack.cluster.progress import ClusterError, report, step
from hack.cluster.requirements import check_machine

CONTROL_PLANE_COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "coredns")

_BOOTSTRAP_MANIFEST = Path(__file__).resolve().parent / "bootstrap.yaml"
# As long as several clusters that start at once need on two slow cores. A component that ends is noticed at once.
_HEALTH_TIMEOUT_SECONDS = 240.0
_READY_TIMEOUT_SECONDS = 240.0


def bring_up(name: str, node_count: int) -> Path:
    """Start the missing components and wait until all work. Returns the administrator's kubeconfig."""
    check_machine()
    programs = ensure_built((*CONTROL_PLANE, *NODES))
    with cluster_lock(name):
        raise_limit()
        return RunningCluster(claim_cluster(name, node_count), programs).up()


def open_cluster(name: str) -> RunningCluster:
    """Returns the cluster of this name, to inspect it or to stop and start its components."""
    return RunningCluster(existing_cluster(name), ensure_built((*CONTROL_PLANE, *NODES)))


@dataclass(frozen=True)
class RunningCluster:
    """A cluster's record and its programs."""

    cluster: EmbeddedCluster
    programs: dict[str, Path]
    files: ControlPlaneFiles = field(init=False)

    def __post_init__(self) -> None:
        files = ControlPlaneFiles(self.cluster.folder, self.cluster.name, self.cluster.endpoints)
        object.__setattr__(self, "files", files)

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl(self.programs["kubectl"], self.cluster.kubeconfig)

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(Node(plan, self.programs) for plan in self.cluster.nodes)

    def node(self, name: str) -> Node:
        return Node(self.cluster.node(name), self.programs)

    def component(self, name: str) -> Component:
        """A component by name; those of a node are named `<node>/<component>`."""
        node, _, of_node = name.rpartition("/")
        if node:
            return self.node(node).component(of_node)
        if name not in CONTROL_PLANE_COMPONENTS:
            nodes = (f"{plan.name}/{each}" for plan in self.cluster.nodes for each in NODE_COMPONENTS)
            raise ClusterError(
                f"no component {name!r}: write one of {', '.join((*CONTROL_PLANE_COMPONENTS, *nodes))}"
            )
        return Component(name, f"{self.cluster.cgroup}/{name}", self.programs[name], self.cluster.log(name))

    def up(self) -> Path:
        ensure_bridge(self.cluster)
        kubeconfig = self.files.admin_kubeconfig()
        # Threads only wait for programs here, and each works on parts of its own.
        with ThreadPoolExecutor(max_workers=len(self.nodes)) as pool:
            prepared = [pool.submit(self._prepare_node, node) for node in self.nodes]
            self._start_api()
            with step("starting the controllers, the scheduler and DNS"):
                self.kubectl.run("apply", "--server-side", "--filename", _BOOTSTRAP_MANIFEST)
                for name in ("kube-controller-manager", "kube-scheduler", "coredns"):
                    self.start(name)
            for outcome in prepared:
                outcome.result()
            self._route()
            for outcome in [pool.submit(self._start_agents, node) for node in self.nodes]:
                outcome.result()
        with step(f"waiting for {', '.join(node.plan.name for node in self.nodes)} to be Ready"):
            for node in self.nodes:
                self._wait_for_node(node)
        return kubeconfig

    def _start_api(self) -> None:
        with step("starting etcd and the API server"):
            for name in ("etcd", "kube-apiserver"):
                self.start(name)

    def start(self, name: str) -> None:
        """Start a stopped component of the control plane and wait until it is healthy."""
        component = self.component(name)
        if component.pid() is None:
            component.start(self._command(name))
        wait_until(
            self.health(name),
            f"{name} becoming healthy",
            _HEALTH_TIMEOUT_SECONDS,
            still_possible=lambda: component.pid() is not None,
            log=component.log,
        )

    def _command(self, name: str) -> list[str]:
        program, files = self.programs[name], self.files
        if name == "etcd":
            return etcd_command(program, files, self.cluster.folder / "etcd")
        if name == "kube-apiserver":
            return apiserver_command(program, files)
        if name == "kube-controller-manager":
            return controller_manager_command(program, files)
        if name == "kube-scheduler":
            return scheduler_command(program, files)
        corefile = write_corefile(self.cluster, files.kubeconfig("kubeconfigs/coredns", DNS_USER))
        return [str(program), "-conf", str(corefile)]

    def health(self, name: str) -> Callable[[], bool]:
        """Returns the health check of a component of the control plane."""
        endpoints, files = self.cluster.endpoints, self.files
        if name == "etcd":
            context = client_context(files.etcd_authority.certificate, files.etcd_client())
            return lambda: answers_ok(endpoints.address, endpoints.etcd_client_port, "/health", context)
        if name == "coredns":
            return lambda: answers_ok(endpoints.address, 8181, "/ready", None) and self._dns_answers()
        context = client_context(files.authority.certificate, files.admin())
        port, path = {
            "kube-apiserver": (endpoints.apiserver_port, "/readyz"),
            "kube-controller-manager": (endpoints.controller_manager_port, "/healthz"),
            "kube-scheduler": (endpoints.scheduler_port, "/healthz"),
        }[name]
        return lambda: answers_ok(endpoints.address, port, path, context)

    def _dns_answers(self) -> bool:
        answer = resolve(f"kubernetes.default.svc.{CLUSTER_DOMAIN}", self.cluster.address)
        return answer == self.cluster.endpoints.service_gateway

    def _prepare_node(self, node: Node) -> None:
        """Starts the parts of a node that need no API server."""
        node.configure(self._credentials(node.plan))
        connect_node(node.plan, node.ensure_namespaces())
        node.start_containerd()
        report(f"  {node.plan.name}: namespaces and containerd are there")

    def _start_agents(self, node: Node) -> None:
        node.start_kubelet()
        node.start_kube_proxy()

    def _route(self) -> None:
        holders = {node.plan.name: pid for node in self.nodes if (pid := node.holder.pid()) is not None}
        route_pods_between(self.cluster, holders)
        route_services(self.cluster)

    def _credentials(self, node: NodePlan) -> NodeCredentials:
        """The kubelet acts as `system:node:<name>`, which the Node authoriser and NodeRestriction hold to its own node."""
        names = (f"DNS:{node.name}", f"IP:{node.address}")
        serving = Identity(f"system:node:{node.name}", "system:nodes", names)
        self.files.kubeconfig(
            f"nodes/{node.name}/kubelet.kubeconfig", f"system:node:{node.name}", "system:nodes"
        )
        return NodeCredentials(
            authority=self.files.authority.certificate,
            kubelet_serving=self.files.authority.issue(f"kubelet-serving-{node.name}", serving),
            # Each node's proxy has a key of its own under the one name that Kubernetes' own role binding knows.
            kube_proxy_kubeconfig=self.files.kubeconfig(
                f"nodes/{node.name}/kube-proxy.kubeconfig", "system:kube-proxy", f"laneway:{node.name}"
            ),
        )

    def _wait_for_node(self, node: Node) -> None:
        """The API server's Ready may date from before a restart, so the kubelet is checked as well.

        It works again once it knows of its pods: until then it would answer that there are none to look into.
        """
        kubelet = node.component("kubelet")
        context = client_context(self.files.authority.certificate, self.files.kubelet_client())
        name, address = node.plan.name, node.plan.address

        def works() -> bool:
            pods = fetch(address, KUBELET_PORT, "/pods", context)
            if pods is None or name not in self.kubectl.ready_nodes():
                return False
            return self.kubectl.live_pods(name) <= {
                pod["metadata"]["uid"] for pod in json.loads(pods)["items"] or ()
            }

        wait_until(
            works,
            f"{name} becoming Ready",
            _READY_TIMEOUT_SECONDS,
            still_possible=lambda: kubelet.pid() is not None,
            log=kubelet.log,
        )
        proxy = node.component("kube-proxy")
        wait_until(
            lambda: answers_ok(address, KUBE_PROXY_HEALTH_PORT, "/healthz", None),
            f"{name}'s kube-proxy having written its rules",
            _READY_TIMEOUT_SECONDS,
            still_possible=lambda: proxy.pid() is not None,
            log=proxy.log,
        )

    def start_node(self, name: str) -> None:
        """Start a stopped node, or its missing components, and wait until it is Ready."""
        node = self.node(name)
        self._prepare_node(node)
        self._route()
        self._start_agents(node)
        self._wait_for_node(node)

    def restart_kubelet(self, name: str) -> None:
        """kill -9 a kubelet and start it again. Pods continue; the node becomes Ready again."""
        node = self.node(name)
        node.component("kubelet").kill()
        node.start_kubelet()
        self._wait_for_node(node)

    def start_component(self, name: str) -> None:
        """Start a stopped component, by its name in `component`."""
        node_name, _, of_node = self.component(name).name.rpartition("/")
        if not node_name:
            self.start(name)
            return
        node = self.node(node_name)
        start = {
            "containerd": node.start_containerd,
            "kubelet": node.start_kubelet,
            "kube-proxy": node.start_kube_proxy,
        }
        start[of_node]()

    def load_image(self, archive: Path) -> None:
        """Import an OCI archive on all nodes."""
        import_archive(archive, {node.plan.name: node.ctr() for node in self.nodes})
