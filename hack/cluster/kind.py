"""The same cluster with kind, if Docker or Podman runs: `kind.yaml` with the requested number of workers."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

from hack.cluster.layout import cluster_folder
from hack.cluster.progress import ClusterError, step

_CONFIG = Path(__file__).resolve().parent / "kind.yaml"
_READY_TIMEOUT = "180s"


def bring_up(name: str, node_count: int, engine: str) -> Path:
    """Create the cluster if kind does not have it. Returns its kubeconfig."""
    kubeconfig = cluster_folder(name) / "kubeconfig"
    kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    shared = cluster_folder(name) / "shared"
    shared.mkdir(exist_ok=True)
    shared.chmod(0o1777)
    if name in _kind(engine, "get", "clusters").split():
        _kind(engine, "export", "kubeconfig", "--name", name, "--kubeconfig", str(kubeconfig))
        return kubeconfig
    with (
        step(f"creating the kind cluster {name!r}"),
        tempfile.NamedTemporaryFile("w", suffix=".yaml") as config,
    ):
        yaml.safe_dump(cluster_config(node_count, shared), config)
        config.flush()
        arguments = (
            "--name",
            name,
            "--config",
            config.name,
            "--kubeconfig",
            str(kubeconfig),
            "--wait",
            _READY_TIMEOUT,
        )
        _kind(engine, "create", "cluster", *arguments)
    return kubeconfig


def bring_down(name: str, engine: str) -> None:
    """Delete the cluster and its state folder."""
    with step(f"deleting the kind cluster {name!r}"):
        _kind(engine, "delete", "cluster", "--name", name)
        shutil.rmtree(cluster_folder(name), ignore_errors=True)


def load_image(name: str, archive: Path, engine: str) -> None:
    """Import an image archive on all nodes."""
    with step(f"loading {archive.name} on the nodes of {name!r}"):
        _kind(engine, "load", "image-archive", str(archive), "--name", name)


def cluster_config(node_count: int, shared: Path) -> dict[str, Any]:
    """Returns `kind.yaml` with this many workers, which share this folder."""
    config: dict[str, Any] = yaml.safe_load(_CONFIG.read_text())
    control_plane, worker = config["nodes"][:2]
    mounts = [{**mount, "hostPath": str(shared)} for mount in worker["extraMounts"]]
    config["nodes"] = [control_plane] + [{**worker, "extraMounts": mounts} for _ in range(node_count)]
    return config


def _kind(engine: str, *arguments: str) -> str:
    done = subprocess.run(
        ["kind", *arguments],
        env={**os.environ, "KIND_EXPERIMENTAL_PROVIDER": engine},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ClusterError(
            f"kind {' '.join(arguments)} failed with status {done.returncode}:\n{done.stderr.strip()}"
        )
    return done.stdout
