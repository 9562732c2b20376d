"""The cluster's network on this machine: one bridge, a veth pair per node, and routes to pods and Services.

Pods are routed, not bridged (the CNI plugin `ptp`): each packet of a pod passes the routing of its node, where
kube-proxy's rules are, so nothing depends on br_netfilter. Nodes reach one another's pods through static routes.
"""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path

from hack.cluster.commands import run, succeeds
from hack.cluster.layout import (
    EmbeddedCluster,
    NodePlan,
    bridge_of,
    cidr_of,
    cluster_lock,
    load_cluster,
    state_root,
)
from hack.cluster.processes import enter_namespaces
from hack.cluster.progress import ClusterError

# 10.S.0.0/16 with S in this range; the lowest free one is taken.
_SUBNETS = range(100, 164)
# No cluster can have this name.
_SUBNET_LOCK = ".subnets"


def claim_cluster(name: str, node_count: int) -> EmbeddedCluster:
    """Returns the stored cluster of this name, or a new one on an unused subnet."""
    with cluster_lock(_SUBNET_LOCK):
        known = load_cluster(name)
        if known is not None:
            if node_count < known.node_count:
                raise ClusterError(
                    f"cluster {name!r} has {known.node_count} nodes and cannot shrink to {node_count}: "
                    f"write --nodes {known.node_count} or more, or bring it down first"
                )
            claimed = EmbeddedCluster(name, known.subnet, node_count)
        else:
            claimed = EmbeddedCluster(name, _free_subnet(), node_count)
        claimed.save()
        return claimed


def _free_subnet() -> int:
    taken = [ipaddress.ip_network(cidr_of(subnet)) for subnet in _claimed_subnets()]
    for route in json.loads(run(["ip", "-json", "-4", "route", "show", "table", "all"])):
        if route["dst"] != "default":
            taken.append(ipaddress.ip_network(route["dst"], strict=False))
    for subnet in _SUBNETS:
        wanted = ipaddress.ip_network(cidr_of(subnet))
        if not any(wanted.overlaps(network) for network in taken):
            return subnet
    raise ClusterError(
        f"every network of 10.{_SUBNETS[0]}.0.0/16 to 10.{_SUBNETS[-1]}.0.0/16 is in use on this machine"
    )


def _claimed_subnets() -> list[int]:
    folders = state_root().glob("*/cluster.json")
    return [known.subnet for folder in folders if (known := load_cluster(folder.parent.name))]


def ensure_bridge(cluster: EmbeddedCluster) -> None:
    """Creates the bridge with the machine's own address."""
    if not _exists(cluster.bridge):
        run(["ip", "link", "add", cluster.bridge, "type", "bridge"])
    run(["ip", "address", "replace", f"{cluster.address}/24", "dev", cluster.bridge])
    run(["ip", "link", "set", cluster.bridge, "up"])
    for rule in _firewall_rules(cluster.bridge):
        if _filters(rule[0]) and not succeeds(["iptables", "--wait", "--check", *rule]):
            run(["iptables", "--wait", "--insert", *rule])


def _firewall_rules(bridge: str) -> tuple[tuple[str, ...], ...]:
    """Rules that let nodes reach this machine and each other despite a firewall or Docker."""
    comment = ("-m", "comment", "--comment", f"laneway cluster {bridge}")
    return (
        ("INPUT", "-i", bridge, *comment, "-j", "ACCEPT"),
        ("FORWARD", "-i", bridge, "-o", bridge, *comment, "-j", "ACCEPT"),
    )


def _filters(chain: str) -> bool:
    """Returns whether a chain has rules. Rules are added only where necessary, because adding one creates tables."""
    return run(["iptables", "--wait", "--list-rules", chain]).strip() != f"-P {chain} ACCEPT"


def connect_node(node: NodePlan, holder_pid: int) -> None:
    """Plug a node's network namespace into the bridge. Repeating it changes nothing."""
    cluster = node.cluster
    inside = enter_namespaces(holder_pid)
    if not succeeds([*inside, "ip", "link", "show", "eth0"]):
        # An end without its peer is left for a moment when a node's namespace has just died.
        remove_interface(node.host_interface)
        run(
            [
                "ip",
                "link",
                "add",
                node.host_interface,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                str(holder_pid),
            ]
        )
    run(["ip", "link", "set", node.host_interface, "master", cluster.bridge, "up"])
    commands = ["link set lo up", "link set eth0 up", f"address replace {node.address}/24 dev eth0"]
    commands.append(f"route replace default via {cluster.address}")
    run([*inside, "ip", "-batch", "-"], stdin="\n".join(commands) + "\n")
    run([*inside, "/bin/sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
    run(["ip", "route", "replace", node.pod_cidr, "via", node.address, "dev", cluster.bridge])


def route_pods_between(cluster: EmbeddedCluster, holders: dict[str, int]) -> None:
    """Adds routes to all other nodes' pods on each node. `holders` are pids in the nodes' namespaces, by node name."""
    for node in cluster.nodes:
        if (pid := holders.get(node.name)) is None:
            continue
        peers = (peer for peer in cluster.nodes if peer != node)
        routes = "".join(f"route replace {peer.pod_cidr} via {peer.address} dev eth0\n" for peer in peers)
        if routes:
            run([*enter_namespaces(pid), "ip", "-batch", "-"], stdin=routes)


def route_services(cluster: EmbeddedCluster) -> None:
    """Let this machine use ClusterIPs through the first node's kube-proxy."""
    first = cluster.nodes[0]
    run(
        [
            "ip",
            "route",
            "replace",
            cluster.endpoints.service_cidr,
            "via",
            first.address,
            "dev",
            cluster.bridge,
        ]
    )


def remove_network(name: str) -> None:
    """Remove the existing interfaces (with their routes) and firewall rules of a cluster."""
    bridge = bridge_of(name)
    for rule in _firewall_rules(bridge):
        while succeeds(["iptables", "--wait", "--check", *rule]):
            run(["iptables", "--wait", "--delete", *rule])
    for interface in interfaces_of(name):
        remove_interface(interface)


def interfaces_of(name: str) -> list[str]:
    """Returns a cluster's interfaces on this machine, the bridge last."""
    bridge = bridge_of(name)
    return sorted((path.name for path in Path("/sys/class/net").glob(f"{bridge}*")), reverse=True)


def remove_interface(interface: str) -> None:
    """Remove an interface if it exists; the kernel may remove it at the same time."""
    if _exists(interface) and not succeeds(["ip", "link", "delete", interface]) and _exists(interface):
        run(["ip", "link", "delete", interface])


def _exists(interface: str) -> bool:
    return succeeds(["ip", "link", "show", interface])
