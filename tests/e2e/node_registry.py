"""A registry on each node of an embedded cluster, because containerd speaks HTTP with registries on 127.0.0.1 only."""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from hack.cluster.build import built
from hack.cluster.node import Node
from hack.cluster.probes import wait_until
from hack.cluster.processes import enter_namespaces

_PORT = 5000


@dataclass(frozen=True)
class Registry:
    """Where helm on this machine reaches it, and each node itself."""

    here: str
    on_node: str


@contextmanager
def registry_on(nodes: Sequence[Node], folder: Path) -> Iterator[Registry]:
    """Runs an empty registry on each node. What is pushed to one is on all, as they have one storage."""
    configuration = folder / "registry.yaml"
    storage = {"filesystem": {"rootdirectory": str(folder / "storage")}}
    configuration.write_text(
        yaml.safe_dump({"version": "0.1", "storage": storage, "http": {"addr": f":{_PORT}"}}),
        encoding="utf-8",
    )
    with ExitStack() as stack:
        addresses = [stack.enter_context(_served(node, configuration)) for node in nodes]
        yield Registry(addresses[0], f"127.0.0.1:{_PORT}")


@contextmanager
def _served(node: Node, configuration: Path) -> Iterator[str]:
    holder = node.holder.pid()
    assert holder is not None
    command = [*enter_namespaces(holder), built("registry"), "serve", configuration]
    address, file = f"{node.plan.address}:{_PORT}", configuration.with_name(f"{node.plan.name}.log")
    with file.open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            wait_until(lambda: _answers(f"http://{address}/v2/"), "the registry answers", 60, log=file)
            yield address
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False
