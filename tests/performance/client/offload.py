"""The cost of moving a training's memory to the host and back, by an order on the node's command line, with a
simulated GPU.

    python -m tests.performance.client.offload -o result.json

CPU tensors stand for the GPU's memory, and the host copy is in the same memory. So the process's resident
memory stays as it was, while what it holds of the GPU falls to nothing. The process verifies that every bit
is back. Right before each move the same bytes are only copied: into memory that is new to the process, as the
host copy is, and into the same memory once more. That is the limit for any mover.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.performance.result_file import write_measured
from tests.support.client.jobs import SCRIPTS
from tests.support.node_agent.node import Node, eventually
from tests.support.node_agent.shell import order
from tests.support.torch_runtime import torch_runtime

MEBIBYTES = (256, 1024)
TIMES = 3
GIBIBYTE = 1 << 30
LONGEST_SECONDS = 120.0


def measure() -> list[dict[str, Any]]:
    """Returns, by size, what moving took."""
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as folder:
        node = Node(Path(folder), gpus=len(MEBIBYTES))
        node.profile["gpus"][0]["memory"] = "4000Mi"
        try:
            node.start()
            return [_of_size(node, gpu, mebibytes) for gpu, mebibytes in enumerate(MEBIBYTES)]
        finally:
            node.end()


def _of_size(node: Node, gpu: int, mebibytes: int) -> dict[str, Any]:
    pod = f"job-{mebibytes}"
    with _job(node, gpu, pod, mebibytes) as process:
        _read(process, "trained")
        moves = [_move(node, pod, process) for _ in range(TIMES)]
    gibibytes = moves[0]["freed_bytes"] / GIBIBYTE
    return {
        "mebibytes": mebibytes,
        **{
            f"{what}{clock}_seconds_per_gib": _median(moves, f"{what}{clock}_seconds") / gibibytes
            for what in ("offload", "restore", "copy_to_new_memory", "copy")
            for clock in ("", "_processor")
        },
        "moves": moves,
    }


def _median(moves: list[dict[str, Any]], name: str) -> float:
    return statistics.median(float(move[name]) for move in moves)


def _move(node: Node, pod: str, process: subprocess.Popen[str]) -> dict[str, Any]:
    name = f"default/{pod}"
    order(node, "pause", name)
    _until(node, pod, "Paused")
    held_before_bytes = node.session(pod)["held_bytes"]
    began = time.perf_counter()
    order(node, "offload", name)
    _until(node, pod, "Offloaded")
    ordered_offload_seconds = time.perf_counter() - began
    began = time.perf_counter()
    order(node, "restore", name)
    found = json.loads(_read(process, "{"))
    if not found["freed_bytes"]:
        raise RuntimeError(f"{pod}: nothing was moved")
    if not found["same"]:
        raise RuntimeError(f"{pod}: its memory came back with other bits")
    _read(process, "trained")
    return {
        **found,
        "held_before_bytes": held_before_bytes,
        "ordered_offload_seconds": ordered_offload_seconds,
        "ordered_restore_seconds": time.perf_counter() - began,
    }


def _until(node: Node, pod: str, state: str) -> None:
    eventually(f"{pod} is {state}", lambda: node.session(pod)["state"] == state, seconds=LONGEST_SECONDS)


def _read(process: subprocess.Popen[str], begins: str) -> str:
    """Returns the next line with this beginning."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(begins):
            return line
    raise RuntimeError(f"it ended: {process.communicate()[1]}")


@contextmanager
def _job(node: Node, gpu: int, pod: str, mebibytes: int) -> Iterator[subprocess.Popen[str]]:
    container = node.container(pod, 100, gpu=gpu).await_socket()
    with tempfile.TemporaryDirectory() as work:
        process = torch_runtime().start(
            ["offload_cost.py", str(mebibytes)], SCRIPTS, Path(work), container.folder
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


if __name__ == "__main__":
    write_measured(measure)
