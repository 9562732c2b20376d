"""A node for tests: a real agent in a folder of its own, containers as the device plugin would write them, and processes
in them that see what a container sees."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from laneway.api.container_record import ContainerRecord
from laneway.api.device_ids import container_key, device_id
from laneway.node_agent.gpus.simulated import simulated_uuid

from tests.support.node_agent.driven_process import DrivenProcess

_ROOT = Path(__file__).resolve().parents[3]
PEER = Path(__file__).with_name("peer_process.py")
ENTER_CONTAINER = """
mount -t tmpfs tmpfs /run && mkdir /run/laneway && mount --bind "$1" /run/laneway &&
mount -o remount,bind,ro /run/laneway && shift && exec "$@"
"""


def eventually(what: str, holds: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Wait for a condition, and return what made it true."""
    until = time.monotonic() + seconds
    while True:
        result = holds()
        if result:
            return result
        assert time.monotonic() < until, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)


def enter(container: Container) -> list[str]:
    """Return a command that runs its arguments in a mount namespace with the container's folder."""
    unshare = ["unshare", "--mount", "--propagation", "private"]
    if os.geteuid() != 0:
        unshare += ["--user", "--map-root-user"]
    return [*unshare, "sh", "-c", ENTER_CONTAINER, "sh", str(container.folder)]


class Container:
    """A container that holds shares of a GPU."""

    def __init__(self, node: Node, record: ContainerRecord) -> None:
        self.node = node
        self.record = record
        self.folder = node.root / "run/laneway/containers" / record.key

    @property
    def socket(self) -> Path:
        return self.folder / "agent.sock"

    def write(self, **changes: Any) -> None:
        self.record = self.record.model_copy(update=changes)
        self.write_text(self.record.model_dump_json())

    def write_text(self, text: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.folder / ".container.json"
        temporary.write_text(text)
        temporary.rename(self.folder / "container.json")

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def await_socket(self) -> Container:
        eventually(f"{self.socket} is there", self.socket.exists)
        return self

    def process(self, program: Path = PEER) -> PeerProcess:
        process = PeerProcess(self, program)
        self.node.processes.append(process)
        return process


class PeerProcess(DrivenProcess):
    """A process in a container, in a mount namespace of its own, that answers commands of `command_loop.py`."""

    def __init__(self, container: Container, program: Path = PEER) -> None:
        """Start it without waiting."""
        command = [*enter(container), sys.executable, str(program)]
        super().__init__(command, os.environ | {"PYTHONPATH": str(_ROOT)})

    def do(self, command: str, /, **fields: Any) -> dict[str, Any]:
        """Have one command done."""
        self.start(command, **fields)
        return self.finish()

    def start(self, command: str, /, **fields: Any) -> None:
        self.command(json.dumps({"do": command, **fields}))

    def finish(self, seconds: float = 90) -> dict[str, Any]:
        return self.answer(seconds)

    # The protocol

    def send(self, kind: str, n: int = 0, **fields: Any) -> None:
        assert "failed" not in self.do("send", text=json.dumps({"type": kind, **fields}), n=n)

    def receive(self, n: int = 0, wait_seconds: float = 60.0) -> dict[str, Any]:
        return self.do("receive", n=n, wait_seconds=wait_seconds)

    def expect(self, kind: str, n: int = 0) -> dict[str, Any]:
        answer = self.receive(n)
        assert answer.get("packet", {}).get("type") == kind, answer
        packet: dict[str, Any] = answer["packet"]
        return packet

    def greet(self, n: int = 0, **fields: Any) -> None:
        """Connect and send a hello, whatever the answer is. The agent closes a connection without a hello after 5 s, so nothing
        that may take longer lies between the two."""
        message = {"version": 1, "pid": 1, "framework": "", "device": "cpu", "gpu": None, **fields}
        self.first(json.dumps({"type": "hello", **message}), n)

    def first(self, packet: str, n: int = 0) -> None:
        """Connect and send a packet."""
        assert self.do("connect", n=n, packet=packet) == {"sent": 1}

    def hello(self, n: int = 0, **fields: Any) -> dict[str, Any]:
        """Open a session; returns the agent's welcome."""
        self.greet(n, **fields)
        return self.expect("welcome", n)

    def profile(self, persistent_mib: int, ephemeral_mib: int) -> None:
        self.send(
            "profile",
            persistent_bytes=persistent_mib << 20,
            ephemeral_bytes=ephemeral_mib << 20,
            framework_bytes=0,
            iteration_seconds=0.01,
            iterations=10,
            largest_tensor_bytes=1 << 20,
            model_bytes=persistent_mib << 19,
        )

    def turn(self) -> int:
        self.send("request")
        return int(self.expect("grant")["turn"])


class Node:
    """The agent and its folder. Start it with :meth:`start`; end all with :meth:`end`."""

    def __init__(self, root: Path, name: str = "n1", gpus: int = 2, **config: Any) -> None:
        self.root = root
        self.name = name
        self.gpus = [simulated_uuid(name, index) for index in range(gpus)]
        self.config: dict[str, Any] = {
            "gpuSource": "simulated",
            "reserveMebibytes": 0,
            "sharing": "lanes",
            **config,
        }
        self.profile: dict[str, Any] = {"gpus": [{"model": "Simulated", "memory": "1000Mi", "count": gpus}]}
        self.environment: dict[str, str] = {}
        self.starter: list[str] = []
        """A program that starts the agent, with its arguments, such as one that sets limits."""
        self.processes: list[PeerProcess] = []
        self.port = 0
        self._slots = dict.fromkeys(self.gpus, 0)
        self.log_name = "agent.log"
        self._process: subprocess.Popen[bytes] | None = None

    def use_gpus(self, gpus: list[str]) -> None:
        """Have other GPUs than simulated ones."""
        self.gpus = gpus
        self._slots = dict.fromkeys(gpus, 0)

    def start(self, *arguments: str) -> Node:
        """Start the agent, and wait until it serves."""
        self.launch(*(arguments or ("--standalone",)))
        self.port = int(eventually("the agent serves", self._served_port, seconds=60))
        return self

    def launch(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the agent and wait for nothing."""
        (self.root / "node.yaml").write_text(yaml.safe_dump(self.config))
        (self.root / "gpus.yaml").write_text(yaml.safe_dump(self.profile))
        command = [*self.starter, sys.executable, "-m", "laneway.node_agent.main"]
        command += ["--config", str(self.root / "node.yaml")]
        command += [
            "--gpus",
            str(self.root / "gpus.yaml"),
            "--root",
            str(self.root),
            "--node-name",
            self.name,
        ]
        command += ["--address", "127.0.0.1", "--port", "0", *arguments]
        with (self.root / self.log_name).open("wb") as log:
            self._process = subprocess.Popen(command, stderr=log, env={**os.environ, **self.environment})
        return self._process

    def kill(self) -> None:
        """End the agent as a crash would."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def terminate(self) -> int:
        """End the agent in peace; returns its exit status."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60)

    def container(
        self, pod: str, percent: int = 50, gpu: int = 0, namespace: str = "default", **fields: Any
    ) -> Container:
        """A container's record, written as the device plugin does."""
        uuid = self.gpus[gpu]
        begin = self._slots[uuid]
        self._slots[uuid] += percent
        ids = [device_id(uuid, slot) for slot in range(begin, begin + percent)]
        record = ContainerRecord(
            key=container_key(ids),
            namespace=namespace,
            pod=pod,
            container="trainer",
            device_ids=tuple(ids),
            shares={uuid: percent},
            **fields,
        )
        container = Container(self, record)
        container.write()
        return container

    def get(self, path: str, timeout_seconds: float = 60.0) -> Any:
        """Return what the agent answers over HTTP."""
        address = f"http://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(address, timeout=timeout_seconds) as answer:
            text = answer.read().decode()
        return json.loads(text) if path.startswith(("/turns", "/sessions")) else text

    def is_healthy(self) -> bool:
        """Return whether the agent answers a probe with ok. If not, it is to be probed again, as the kubelet does."""
        try:
            return bool(self.get("/healthz", timeout_seconds=10) == "ok\n")
        except OSError:
            return False

    def session(self, pod: str) -> dict[str, Any]:
        """Return what the agent says of a pod."""
        (found,) = [session for session in self.get("/sessions") if session["pod"] == pod]
        return dict(found)

    @property
    def agent_pid(self) -> int:
        """Return the agent's process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """Return what the agent logged."""
        return (self.root / self.log_name).read_text()

    @property
    def saved_state(self) -> str:
        """Return what the agent has saved for its successor; empty before it has done so."""
        path = self.root / "var/lib/laneway/agent/state.json"
        return path.read_text() if path.exists() else ""

    def end(self) -> None:
        """End everything that was started."""
        for process in self.processes:
            process.end()
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _served_port(self) -> str | None:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        found = re.search(r"http=\S*:(\d+)\s", self.log)  # the line may be incomplete yet
        return found.group(1) if found else None


@contextmanager
def nodes_below(folder: Path) -> Iterator[Callable[..., Node]]:
    """Make nodes, each in a folder of its own; all that they started is ended at the end."""
    nodes: list[Node] = []

    def make(**config: Any) -> Node:
        root = folder / f"node-{len(nodes)}"
        root.mkdir()
        nodes.append(Node(root, **config))
        return nodes[-1]

    try:
        yield make
    finally:
        for node in nodes:
            node.end()


def overlaps(turns: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return pairs of turns that ran at the same time."""
    ended = sorted(
        (turn for turn in turns if turn["end_seconds"] is not None), key=lambda turn: turn["start_seconds"]
    )
    return [
        (first, second)
        for index, first in enumerate(ended)
        for second in ended[index + 1 :]
        if second["start_seconds"] < first["end_seconds"]
    ]
