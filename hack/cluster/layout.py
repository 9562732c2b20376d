"""One embedded cluster's names, addresses and folders, all derived from its name, subnet and node count.

A cluster has a /16 of its own, 10.S.0.0/16, so that several clusters of different names run side by side:

    10.S.0.1          the machine itself on the cluster's bridge: etcd, API server, controllers, DNS
    10.S.0.(10+n)     node n
    10.S.(64+n).0/24  the pods of node n
    10.S.128.0/17     Services; the first address is the API server's
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from hack.cluster.cache import exclusive
from hack.cluster.components import Endpoints
from hack.cluster.progress import ClusterError

MOST_NODES = 32
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?")


def state_root() -> Path:
    """Returns the folder of all clusters' state: `$LANEWAY_STATE`, otherwise a system folder for root or the user's own."""
    chosen = os.environ.get("LANEWAY_STATE")
    if chosen:
        return Path(chosen).expanduser().resolve()
    return (
        Path("/var/lib/laneway-clusters")
        if os.geteuid() == 0
        else Path.home() / ".local/state/laneway-clusters"
    )


def cluster_folder(name: str) -> Path:
    """Returns the state folder of one cluster of any backend."""
    if not _NAME.fullmatch(name):
        raise ClusterError(
            f"cluster name {name!r} is not usable in host names: write at most 30 small letters, digits and dashes, "
            "beginning and ending with a letter or digit, as in 'laneway'"
        )
    return state_root() / name


@contextmanager
def cluster_lock(name: str) -> Iterator[None]:
    """Holds the lock that lets one command at a time change a cluster."""
    with exclusive(state_root() / ".locks" / f"{name}.lock"):
        yield


@dataclass(frozen=True)
class NodePlan:
    """A node's name, addresses and folders. `index` counts from 1."""

    cluster: EmbeddedCluster
    index: int

    @property
    def name(self) -> str:
        return f"{self.cluster.name}-node-{self.index}"

    @property
    def address(self) -> str:
        return f"10.{self.cluster.subnet}.0.{10 + self.index}"

    @property
    def pod_cidr(self) -> str:
        return f"10.{self.cluster.subnet}.{64 + self.index}.0/24"

    @property
    def host_interface(self) -> str:
        """The end of the node's veth pair that is plugged into the bridge."""
        return f"{self.cluster.bridge}n{self.index}"

    @property
    def folder(self) -> Path:
        return self.cluster.folder / "nodes" / self.name

    @property
    def cgroup(self) -> str:
        return f"{self.cluster.cgroup}/{self.name}"


@dataclass(frozen=True)
class EmbeddedCluster:
    """A cluster's stored state is its subnet and node count; the rest follows from its name."""

    name: str
    subnet: int
    node_count: int

    @property
    def folder(self) -> Path:
        return cluster_folder(self.name)

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def shared_folder(self) -> Path:
        """All nodes mount it at /var/lib/laneway-shared, in place of a network file system for checkpoints."""
        return self.folder / "shared"

    @property
    def cgroup(self) -> str:
        return cgroup_of(self.name)

    @property
    def bridge(self) -> str:
        return bridge_of(self.name)

    @property
    def cidr(self) -> str:
        return cidr_of(self.subnet)

    @property
    def pod_cidr(self) -> str:
        return f"10.{self.subnet}.64.0/18"

    @property
    def address(self) -> str:
        return f"10.{self.subnet}.0.1"

    @property
    def endpoints(self) -> Endpoints:
        return Endpoints(self.address, f"10.{self.subnet}.128.0/17", f"10.{self.subnet}.128.1")

    @property
    def nodes(self) -> tuple[NodePlan, ...]:
        return tuple(NodePlan(self, index) for index in range(1, self.node_count + 1))

    def node(self, name: str) -> NodePlan:
        for node in self.nodes:
            if node.name == name:
                return node
        raise ClusterError(f"no node {name!r}: write one of {', '.join(node.name for node in self.nodes)}")

    def log(self, component: str) -> Path:
        """A component's log; node components are named `<node>/<component>`."""
        return self.folder / "logs" / f"{component}.log"

    def save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        unfinished = self.folder / ".cluster.json.new"
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.rename(self.folder / "cluster.json")


def load_cluster(name: str) -> EmbeddedCluster | None:
    """Returns the stored cluster of this name; None if there is none."""
    file = cluster_folder(name) / "cluster.json"
    if not file.exists():
        return None
    fields = json.loads(file.read_text())
    return EmbeddedCluster(str(fields["name"]), int(fields["subnet"]), int(fields["node_count"]))


def existing_cluster(name: str) -> EmbeddedCluster:
    """Returns the stored cluster of this name; raises an error with advice if there is none."""
    found = load_cluster(name)
    if found is None:
        raise ClusterError(
            f"no embedded cluster {name!r} below {state_root()}: start it first with 'make cluster-up'"
        )
    return found


def cgroup_of(name: str) -> str:
    """Returns the cgroup of all of a cluster's processes, in every hierarchy."""
    return f"laneway-{name}"


def bridge_of(name: str) -> str:
    """Interface names have at most 15 characters, so they contain a digest of the cluster's name."""
    return f"lw{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def cidr_of(subnet: int) -> str:
    return f"10.{subnet}.0.0/16"
