"""Which cluster a command talks to: the user's own, kind's, or the embedded one, in this order."""

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
class Surroundings:
    """What the choice depends on. `engine` is the container engine that runs: docker, podman, or empty."""

    kubeconfig: str
    own_kubeconfig: str
    engine: str
    kind_installed: bool
    embedded_exists: bool = False
    """An embedded cluster of this name is there: a kind that was installed since must not hide it."""


@dataclass(frozen=True)
class Choice:
    backend: Backend
    reason: str


def choose(surroundings: Surroundings) -> Choice:
    """An explicit KUBECONFIG, else kind where it can run, else the embedded cluster.

    A KUBECONFIG that names the file which an earlier start wrote is not another cluster: the choice goes on.
    """
    kubeconfig = surroundings.kubeconfig
    if kubeconfig and kubeconfig != surroundings.own_kubeconfig:
        return Choice(Backend.KUBECONFIG, f"KUBECONFIG is set to {kubeconfig}")
    if surroundings.embedded_exists:
        return Choice(Backend.EMBEDDED, "the embedded cluster of this name exists")
    if surroundings.engine and surroundings.kind_installed:
        return Choice(Backend.KIND, f"kind is installed and {surroundings.engine} runs")
    if surroundings.engine:
        return Choice(
            Backend.EMBEDDED,
            f"no KUBECONFIG of another cluster; {surroundings.engine} runs, but kind is not installed",
        )
    return Choice(Backend.EMBEDDED, "no KUBECONFIG of another cluster, and no Docker or Podman engine runs")


def choose_here(name: str) -> Choice:
    """The choice for a cluster on this machine as it is now. A client without its engine counts as nothing."""
    return choose(
        Surroundings(
            kubeconfig=os.environ.get("KUBECONFIG", ""),
            own_kubeconfig=str(cluster_folder(name) / "kubeconfig"),
            engine=running_engine(),
            kind_installed=shutil.which("kind") is not None,
            embedded_exists=load_cluster(name) is not None,
        )
    )


def running_engine() -> str:
    """The container engine that answers, docker before podman; empty where none does.

    Podman needs no daemon, so there it is enough that it can name its host; it counts only where kind can use it.
    """
    if shutil.which("docker") and succeeds(["docker", "info"]):
        return "docker"
    if shutil.which("podman") and succeeds(["podman", "info"]):
        return "podman"
    return ""


def kubeconfig_of(name: str, choice: Choice) -> Path:
    """The kubeconfig with which the chosen cluster is reached."""
    if choice.backend is Backend.KUBECONFIG:
        return Path(os.environ["KUBECONFIG"])
    return cluster_folder(name) / "kubeconfig"
