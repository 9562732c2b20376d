"""The configuration files of a node's components: containerd, its pod network, the kubelet, kube-proxy."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hack.cluster.components import CLUSTER_DOMAIN
from hack.cluster.images import PAUSE_IMAGE
from hack.cluster.layout import NodePlan
from hack.cluster.pki import Credential
from hack.cluster.progress import ClusterError

KUBELET_PORT = 10250
KUBE_PROXY_HEALTH_PORT = 10256
CNI_PLUGIN_FOLDERS = tuple(Path(folder) for folder in ("/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"))
CNI_PLUGINS = ("loopback", "ptp", "host-local", "portmap")


@dataclass(frozen=True)
class NodePaths:
    """Paths of a node's configuration, below the cluster's state folder."""

    folder: Path

    @property
    def containerd_config(self) -> Path:
        return self.folder / "containerd.toml"

    @property
    def cni_folder(self) -> Path:
        return self.folder / "cni"

    @property
    def kubelet_config(self) -> Path:
        return self.folder / "kubelet.yaml"

    @property
    def kubelet_kubeconfig(self) -> Path:
        return self.folder / "kubelet.kubeconfig"

    @property
    def kube_proxy_config(self) -> Path:
        return self.folder / "kube-proxy.yaml"

    @property
    def resolv_conf(self) -> Path:
        return self.folder / "resolv.conf"


@dataclass(frozen=True)
class NodeCredentials:
    """The kubelet's serving certificate, the authority of its clients, and kube-proxy's kubeconfig."""

    authority: Path
    kubelet_serving: Credential
    kube_proxy_kubeconfig: Path


def write_configuration(node: NodePlan, paths: NodePaths, credentials: NodeCredentials) -> None:
    """Write every changed file; a component reads its file at its next start.

    What is the same is not touched: containerd watches its file of networks, and kube-proxy ends when its own is written.
    """
    paths.cni_folder.mkdir(parents=True, exist_ok=True)
    contents = {
        paths.containerd_config: _containerd_config(paths),
        paths.cni_folder / "10-laneway.conflist": json.dumps(_pod_network(node), indent=2),
        # Pods with dnsPolicy Default get it; the machine's own file may name a resolver on loopback.
        paths.resolv_conf: f"nameserver {node.cluster.address}\n",
        paths.kubelet_config: yaml.safe_dump(_kubelet_config(node, paths, credentials), sort_keys=False),
        paths.kube_proxy_config: yaml.safe_dump(_kube_proxy_config(node, credentials), sort_keys=False),
    }
    for file, content in contents.items():
        if not file.exists() or file.read_text() != content:
            file.write_text(content)


def cni_plugin_folder() -> Path:
    """Returns the folder of the network plugins; raises an error with advice if there is none."""
    for folder in CNI_PLUGIN_FOLDERS:
        if all((folder / plugin).exists() for plugin in CNI_PLUGINS):
            return folder
    raise ClusterError(
        f"no folder of {', '.join(map(str, CNI_PLUGIN_FOLDERS))} holds the network plugins {', '.join(CNI_PLUGINS)}: "
        "install the package containernetworking-plugins"
    )


def _containerd_config(paths: NodePaths) -> str:
    """containerd 2 (configuration version 3)."""
    return f"""version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "/run/containerd/containerd.sock"

# Listens on one path a machine by default, and no plugin of it is used.
[plugins.'io.containerd.nri.v1.nri']
disable = true

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE_IMAGE}"

[plugins.'io.containerd.cri.v1.runtime']
# Where root lacks CAP_SYS_RESOURCE the sandbox's score of -998 is refused, and the pod with it.
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{cni_plugin_folder()}"]
conf_dir = "{paths.cni_folder}"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def _pod_network(node: NodePlan) -> dict[str, Any]:
    """Each pod has its own veth pair, routed by the node. Address leases are in /run, so a restart frees them."""
    return {
        "cniVersion": "1.0.0",
        "name": "laneway",
        "plugins": [
            {
                "type": "ptp",
                "ipMasq": False,
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/run/cni/networks",
                    "ranges": [[{"subnet": node.pod_cidr}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _kubelet_config(node: NodePlan, paths: NodePaths, credentials: NodeCredentials) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(credentials.authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(credentials.kubelet_serving.certificate),
        "tlsPrivateKeyFile": str(credentials.kubelet_serving.key),
        "address": node.address,
        "port": KUBELET_PORT,
        "readOnlyPort": 0,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "clusterDNS": [node.cluster.address],
        "clusterDomain": CLUSTER_DOMAIN,
        "resolvConf": str(paths.resolv_conf),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        # Nodes share the machine: each one counts all of its memory and disk as its own, so limits on the
        # whole node would hold nothing, and a disk that is nearly full must not evict the pods of every node.
        "enforceNodeAllocatable": [],
        "evictionHard": {"nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        # Lowering the score needs CAP_SYS_RESOURCE, which root may lack.
        "oomScoreAdj": 0,
        # Tests stop and start nodes; the defaults would make each of them wait for most of a minute.
        "nodeStatusUpdateFrequency": "4s",
        "nodeLeaseDurationSeconds": 20,
        # They also kill containers of one pod again and again: by default each start waits twice as long as the last, from 10 s on.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
        "serializeImagePulls": False,
        "registerNode": True,
    }


def _kube_proxy_config(node: NodePlan, credentials: NodeCredentials) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(credentials.kube_proxy_kubeconfig)},
        "detectLocalMode": "ClusterCIDR",
        "clusterCIDR": node.cluster.pod_cidr,
        "healthzBindAddress": f"{node.address}:{KUBE_PROXY_HEALTH_PORT}",
        "nodePortAddresses": ["primary"],
        # The limits on connections are the machine's; a network namespace may not change them.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "oomScoreAdj": 0,
    }
