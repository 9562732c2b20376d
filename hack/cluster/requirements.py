"""Requirements of the embedded cluster, with advice for each one that the machine lacks."""

from __future__ import annotations

import os
import platform
import shutil

from hack.cluster.node_configuration import cni_plugin_folder
from hack.cluster.processes import component_environment
from hack.cluster.progress import ClusterError

# Program and Debian's package of it.
_PROGRAMS = {
    "ip": "iproute2",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setsid": "util-linux",
    "mount": "mount",
    "openssl": "openssl",
    "runc": "runc",
    "gcc": "gcc",
    "socat": "socat",
}


def check_machine() -> None:
    """Raise an error that names everything missing."""
    if platform.system() != "Linux":
        raise ClusterError(
            f"the embedded cluster runs on Linux only, this is {platform.system()}: "
            "install kind and Docker or Podman, or set KUBECONFIG to a cluster that you have"
        )
    if os.geteuid() != 0:
        raise ClusterError(
            "the embedded cluster makes network namespaces and mounts and so needs root: run the command as root, "
            "or install kind and Docker or Podman, or set KUBECONFIG to a cluster that you have"
        )
    path = component_environment()["PATH"]
    missing = {package for program, package in _PROGRAMS.items() if shutil.which(program, path=path) is None}
    if missing:
        raise ClusterError(f"programs are missing: install the packages {', '.join(sorted(missing))}")
    cni_plugin_folder()
