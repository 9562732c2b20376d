"""Chooses the cluster of a command: the user's own, kind's, or the embedded one, in this order."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hack.cluster.commands import succeeds
from hack.cluster.layout import cluster_folder, load_cluster


class Backend(StrEnum):
    KUBECONFIG = "kubeconfig"
    KIND = "kind"
    EMBEDDED = "embedded"


@dataclass(frozen=True)
class Machine:
    """The inputs of the choice. `engine` is the running container engine: docker, podman, or empty."""

    kubeconfig: str
    own_kubeconfig: str
    engine: str
    kind_installed: bool
    embedded_exists: bool = False
    """An embedded cluster of this name exists. A kind that was installed later must not hide it."""


@dataclass(frozen=True)
class Choice:
    backend: Backend
    reason: str


def choose(machine: Machine) -> Choice:
    """Returns an explicit KUBECONFIG, otherwise kind if it can run, otherwise the embedded cluster.

    A KUBECONFIG that an earlier start wrote is not another cluster and is ignored.
    """
    kubeconfig = machine.kubeconfig
    if kubeconfig and kubeconfig != machine.own_kubeconfig:
        return Choice(Backend.KUBECONFIG, f"KUBECONFIG is set to {kubeconfig}")
    if machine.embedded_exists:
        return Choice(Backend.EMBEDDED, "the embedded cluster of this name exists")
    if machine.engine and machine.kind_installed:
        return Choice(Backend.KIND, f"kind is installed and {machine.engine} runs")
    if machine.engine:
        return Choice(
            Backend.EMBEDDED,
            f"no KUBECONFIG of another cluster; {machine.engine} runs, but kind is not installed",
        )
    return Choice(Backend.EMBEDDED, "no KUBECONFIG of another cluster, and no Docker or Podman engine runs")


def choose_here(name: str) -> Choice:
    """Returns the choice for this machine now. A client without a running engine does not count."""
    return choose(
        Machine(
            kubeconfig=os.environ.get("KUBECONFIG", ""),
            own_kubeconfig=str(cluster_folder(name) / "kubeconfig"),
            engine=running_engine(),
            kind_installed=shutil.which("kind") is not None,
            embedded_exists=load_cluster(name) is not None,
        )
    )


def running_engine() -> str:
    """Returns the running container engine, docker before podman; empty if there is none.

    Podman needs no daemon: it counts if `podman info` works.
    """
    if shutil.which("docker") and succeeds(["docker", "info"]):
        return "docker"
    if shutil.which("podman") and succeeds(["podman", "info"]):
        return "podman"
    return ""


def kubeconfig_of(name: str, choice: Choice) -> Path:
    """Returns the kubeconfig of the chosen cluster."""
    if choice.backend is Backend.KUBECONFIG:
        return Path(os.environ["KUBECONFIG"])
    return cluster_folder(name) / "kubeconfig"
