"""What the client adds to the start of Python, and to a process that never imports PyTorch.

    python -m tests.performance.client.start -o result.json

Processes with and without the client on their path alternate. The client is in a fresh folder without byte
code, as in a container whose Python it was not compiled for. With PyTorch, the process itself measures the
import of the client's modules after PyTorch's import.
"""

from __future__ import annotations

import json
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.performance.result_file import write_measured
from tests.support.client.jobs import SCRIPTS
from tests.support.torch_runtime import CLIENT, torch_runtime

STARTS = 40
TORCH_STARTS = 3
LOOK = """
import json, os, sys, threading
descriptors = [os.readlink(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{each}")]
print(json.dumps({
    "modules": sorted(name for name in sys.modules if name.split(".")[0] in ("laneway", "sitecustomize")),
    "all_modules": len(sys.modules),
    "threads": len(os.listdir("/proc/self/task")),
    "sockets": sum(each.startswith("socket:") for each in descriptors),
    "descriptors": len(descriptors),
}))
"""


def measure() -> dict[str, Any]:
    """Returns times in milliseconds, and what exists in a process without PyTorch."""
    with tempfile.TemporaryDirectory(prefix="lw-") as name:
        folder = Path(name)
        shutil.copytree(CLIENT, folder / "client", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "agent").mkdir()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listener.bind(str(folder / "agent/agent.sock"))
        listener.listen()
        listener.setblocking(False)
        ways: dict[str, dict[str, str]] = {"plain": {}, "laneway": _environment(folder)}
        starts: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(STARTS):
            for way, variables in ways.items():
                starts[way].append(_start_ms(variables))
        without_torch = {way: _sample(variables) for way, variables in ways.items()}
        connections = _connections(listener)
        listener.close()
    return {
        "starts": STARTS,
        **{way: _medians(found) for way, found in starts.items()},
        "added": _medians(
            [
                (wall - plain_wall, processor - plain_processor)
                for (plain_wall, plain_processor), (wall, processor) in zip(
                    starts["plain"], starts["laneway"], strict=True
                )
            ]
        ),
        "without_torch": {**without_torch, "connections": connections},
        "with_torch": _with_torch(),
    }


def _medians(starts: list[tuple[float, float]]) -> dict[str, float]:
    """Returns medians; of the differences between neighbours, where those are given."""
    return {
        "wall_ms": round(statistics.median(wall for wall, _ in starts), 2),
        "processor_ms": round(statistics.median(processor for _, processor in starts), 2),
    }


def _environment(folder: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(folder / "client"), "LANEWAY_DIR": str(folder / "agent")}


def _start_ms(variables: dict[str, str]) -> tuple[float, float]:
    """Returns the wall time of a process from start to end, and its CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    _python("pass", variables)
    wall_ms = 1000 * (time.perf_counter() - began)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return wall_ms, 1000 * processor_seconds


def _sample(variables: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_python(LOOK, variables))
    return found


def _python(code: str, variables: dict[str, str]) -> str:
    environment = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1", **variables}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def _connections(listener: socket.socket) -> int:
    """Counts connections to the agent's socket."""
    count = 0
    while True:
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


def _with_torch() -> dict[str, float]:
    found = []
    for _ in range(TORCH_STARTS):
        with tempfile.TemporaryDirectory() as work:
            agent_folder = Path(work) / "agent"
            agent_folder.mkdir()
            process = torch_runtime().start(["timed_import.py"], SCRIPTS, Path(work), agent_folder)
            output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        found.append(json.loads(output))
    return {name: round(statistics.median(each[name] for each in found), 1) for name in found[0]}


if __name__ == "__main__":
    write_measured(measure)
