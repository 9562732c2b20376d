"""The plugin as the process that runs on a node, with folders of its own, and the agent's files beside it."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from laneway.api.device_ids import container_key
from laneway.api.inventory import Inventory


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait for a condition; fail with its description if it does not hold in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so after {seconds} s: {what}"
        time.sleep(0.02)


@dataclass
class PluginNode:
    """A node's folders, and the plugin that runs on them."""

    root: Path
    node: str = "n1"
    kubeconfig: Path | None = None
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    listeners: list[socket.socket] = field(default_factory=list)

    @property
    def containers(self) -> Path:
        return self.root / "containers"

    @property
    def device_plugins(self) -> Path:
        return self.root / "device-plugins"

    @property
    def pod_resources_socket(self) -> Path:
        return self.root / "pod-resources" / "kubelet.sock"

    @property
    def log(self) -> str:
        file = self.root / "log"
        return file.read_text() if file.exists() else ""

    def write_inventory(self, inventory: Inventory | str) -> None:
        """Write inventory.json as the agent does."""
        text = inventory if isinstance(inventory, str) else inventory.model_dump_json()
        scratch = self.root / "inventory.new"
        scratch.write_text(text)
        scratch.replace(self.root / "inventory.json")

    def start(self, config: str = "gpuSource: simulated\n") -> None:
        """Start the plugin."""
        (self.root / "node.yaml").write_text(config)
        command = [
            *(sys.executable, "-m", "laneway.device_plugin.main", "--config", str(self.root / "node.yaml")),
            *("--node-name", self.node, "--http-address", "127.0.0.1", "--http-port", "0"),
            *("--inventory", str(self.root / "inventory.json"), "--containers-folder", str(self.containers)),
            *(
                "--client-folder",
                str(self.root / "client"),
                "--device-plugins-folder",
                str(self.device_plugins),
            ),
            *("--pod-resources-socket", str(self.pod_resources_socket)),
            *("--runtime-socket", str(self.root / "runtime.sock")),
            *(("--kubeconfig", str(self.kubeconfig)) if self.kubeconfig else ()),
            *self.options,
        ]
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; return the exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def clean_up(self) -> None:
        """End what runs."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        for listener in self.listeners:
            listener.close()

    def page(self, path: str) -> tuple[int, str]:
        """Get a page of the plugin's HTTP endpoint."""
        port = re.search(r"port=(\d+)", self.log)
        assert port is not None, self.log
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def folder(self, ids: tuple[str, ...]) -> Path:
        """The folder of the container with these ids."""
        return self.containers / container_key(ids)

    def record(self, ids: tuple[str, ...]) -> dict[str, Any] | None:
        """The record of the container with these ids; None if none is readable."""
        try:
            record: dict[str, Any] = json.loads((self.folder(ids) / "container.json").read_bytes())
        except (FileNotFoundError, ValueError):
            return None
        return record

    def open_socket(self, ids: tuple[str, ...]) -> None:
        """Open the container's socket once it is named, as the agent does."""

        def open_when_named() -> None:
            wait_until(lambda: self.record(ids) is not None, "the container is named")
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            listener.bind(str(self.folder(ids) / "agent.sock"))
            listener.listen()
            self.listeners.append(listener)

        threading.Thread(target=open_when_named, daemon=True).start()
