"""The programs of the embedded cluster: the pinned Go module and the build flags of each.

Versions come from the `go.mod` files under `gomod/`, so each is written once. A folder in
`gomod/` is one module graph: programs that share a folder share their compiled packages, which is why helm and
CoreDNS are built beside Kubernetes. Their pinned versions raise none of the libraries of
Kubernetes' own go.mod, except three for terminals and flags.
"""

from __future__ import annotations

import hashlib
import platform
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hack.cluster.cache import cache_folder
from hack.cluster.progress import ClusterError

GOMOD = Path(__file__).resolve().parent / "gomod"


@dataclass(frozen=True)
class Binary:
    """One program. `versioned_by` names the Go module whose version in go.mod is the program's version."""

    name: str
    workspace: str
    package: str
    versioned_by: str
    tags: str = ""
    version_variable: str = ""

    @property
    def module_folder(self) -> Path:
        return GOMOD / self.workspace

    @property
    def version(self) -> str:
        return required_version(self.module_folder / "go.mod", self.versioned_by)

    @property
    def link_flags(self) -> str:
        """Strips the program and stamps its version, because Kubernetes' clients refuse a server without one."""
        flags = ["-s", "-w"]
        if self.version_variable:
            flags += ["-X", f"{self.version_variable}={self.version}"]
        if self.versioned_by == "k8s.io/kubernetes":
            major, minor = self.version.removeprefix("v").split(".")[:2]
            flags += ["-X", f"k8s.io/component-base/version.gitMajor={major}"]
            flags += ["-X", f"k8s.io/component-base/version.gitMinor={minor}"]
            flags += ["-X", "k8s.io/component-base/version.gitTreeState=clean"]
        return " ".join(flags)

    @property
    def path(self) -> Path:
        """Path of the built program. The suffix changes with the recipe, so a changed pin never yields an old program."""
        sources = [self.module_folder / "go.mod", self.module_folder / "go.sum"]
        if self.package.startswith("./"):
            sources += sorted((self.module_folder / self.package).glob("*.go"))
        recipe = (
            *(_digest(source) for source in sources),
            self.package,
            self.tags,
            self.link_flags,
            platform.machine(),
        )
        digest = hashlib.sha256("\0".join(recipe).encode()).hexdigest()[:8]
        return cache_folder() / "bin" / f"{self.name}-{self.version}-{digest}" / self.name


@cache
def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@cache
def required_version(go_mod: Path, module: str) -> str:
    """Returns the version of `module` that `go_mod` requires."""
    found = re.search(rf"^(?:require)?\s*{re.escape(module)} (v\S+)", go_mod.read_text(), re.MULTILINE)
    if found is None:
        raise ClusterError(f"{go_mod} does not require {module}: add a require line with its version")
    return found.group(1)


def _kubernetes(name: str) -> Binary:
    return Binary(
        name,
        "kubernetes",
        f"k8s.io/kubernetes/cmd/{name}",
        "k8s.io/kubernetes",
        version_variable="k8s.io/component-base/version.gitVersion",
    )


def _containerd(name: str) -> Binary:
    module = "github.com/containerd/containerd/v2"
    return Binary(
        name,
        "containerd",
        f"{module}/cmd/{name}",
        module,
        # Snapshotters that need libraries in C; the nodes use overlayfs.
        tags="no_btrfs no_devmapper no_zfs",
        version_variable=f"{module}/version.Version",
    )


CONTROL_PLANE = ("etcd", "kube-apiserver", "kubectl")
NODES = (
    *("kube-controller-manager", "kube-scheduler", "coredns"),
    *("containerd", "containerd-shim-runc-v2", "ctr", "kubelet", "kube-proxy"),
)
ON_DEMAND = ("kwok", "registry", "crane")
"""Built only when a benchmark, a test of the release or a publication needs them."""

BINARIES = {
    binary.name: binary
    for binary in (
        Binary("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3"),
        _kubernetes("kube-apiserver"),
        _kubernetes("kubectl"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kube-scheduler"),
        _kubernetes("kubelet"),
        _kubernetes("kube-proxy"),
        Binary("coredns", "kubernetes", "./coredns", "github.com/coredns/coredns"),
        Binary(
            "helm",
            "kubernetes",
            "helm.sh/helm/v3/cmd/helm",
            "helm.sh/helm/v3",
            version_variable="helm.sh/helm/v3/internal/version.version",
        ),
        _containerd("containerd"),
        _containerd("containerd-shim-runc-v2"),
        _containerd("ctr"),
        Binary(
            "kubeconform",
            "kubeconform",
            "github.com/yannh/kubeconform/cmd/kubeconform",
            "github.com/yannh/kubeconform",
            version_variable="main.version",
        ),
        Binary(
            "helm-docs",
            "helm-docs",
            "github.com/norwoodj/helm-docs/cmd/helm-docs",
            "github.com/norwoodj/helm-docs",
            version_variable="main.version",
        ),
        Binary(
            "kwok",
            "kwok",
            "sigs.k8s.io/kwok/cmd/kwok",
            "sigs.k8s.io/kwok",
            version_variable="sigs.k8s.io/kwok/pkg/consts.Version",
        ),
        Binary(
            "registry",
            "registry",
            "github.com/distribution/distribution/v3/cmd/registry",
            "github.com/distribution/distribution/v3",
        ),
        Binary(
            "crane",
            "registry",
            "github.com/google/go-containerregistry/cmd/crane",
            "github.com/google/go-containerregistry",
            version_variable="github.com/google/go-containerregistry/cmd/crane/cmd.Version",
        ),
    )
}

ORDINARY = tuple(name for name in BINARIES if name not in ON_DEMAND)


def binary(name: str) -> Binary:
    """Returns the recipe of a program by name."""
    try:
        return BINARIES[name]
    except KeyError:
        raise ClusterError(
            f"no recipe for a program {name!r}: write one of {', '.join(sorted(BINARIES))}"
        ) from None
