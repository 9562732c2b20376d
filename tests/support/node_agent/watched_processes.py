"""What tests of the watchdog share: processes in pods' cgroups, what the driver says that they hold, and how they end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.support.node_agent.node import Container, Node, PeerProcess, eventually
from tests.support.node_agent.pod_cgroup import PodCgroup

MakeNode = Callable[..., Node]
MakePod = Callable[[], PodCgroup]
QUICK = {"probeSeconds": 1}
WORKS = "import time; print('ready', flush=True); time.sleep(600)"
IGNORES_SIGTERM = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {WORKS}"


def start(make_node: MakeNode, **watchdog: Any) -> Node:
    node = make_node(health=QUICK, watchdog={"graceSeconds": 1, "killSeconds": 600, **watchdog})
    return node.start()


def works(
    pod: PodCgroup, container: Container | None = None, program: str = WORKS, cgroup: str = "c1"
) -> subprocess.Popen[str]:
    """Start a process that no client is in, in a container of a pod, or in one without a share."""
    return pod.run([sys.executable, "-c", program], container, cgroup)


def connect(container: Container, pod: PodCgroup) -> PeerProcess:
    process = container.await_socket().process()
    pod.take(process)
    process.hello()
    return process


def driver_sees(node: Node, *, mig: bool = False, **mebibytes: int) -> None:
    """Say what the driver sees: ``p<pid>=mebibytes``, on the first GPU, and whether it is in MIG mode."""
    sizes = {int(pid[1:]): f"{size}Mi" for pid, size in mebibytes.items()}
    path = node.root / "run/laneway/simulated-faults.yaml"
    temporary = path.with_name("faults.new")
    temporary.write_text(json.dumps({"gpus": [{"gpu": 0, "processes": sizes, "mig": mig}]}))
    temporary.rename(path)


def message(node: Node, pod: str) -> str:
    return str(node.session(pod)["message"])


def gpu(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((node.root / "run/laneway/inventory.json").read_text())["gpus"][0]
    return found


def ended(process: subprocess.Popen[str]) -> int:
    """Wait for a process's end; returns how it ended."""
    eventually("it has ended", lambda: process.poll() is not None)
    assert process.returncode is not None
    return process.returncode
