"""What a turn boundary costs the training process while no other session wants its lane.

    python -m tests.performance.node.boundary -o boundary.json

One process with the real client holds the turn of a real agent's lane. The benchmark times the end of an iteration together
with the beginning of the next, in bursts, and reports the median and the fastest burst. `boundary_in_torch.py` times PyTorch's
hooks.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from tests.performance.node.crowd import admit, node_with
from tests.performance.result_file import write_measured
from tests.support.node_agent.node import Node, PeerProcess
from tests.support.torch_runtime import torch_runtime

BURSTS = 30
TIMES = 20_000
TORCH_SECONDS = 120


def measure() -> dict[str, Any]:
    """Return the cost of a boundary, in microseconds."""
    with node_with(gpus=3) as node:
        bare, measured = _process(node, 0, measured=False), _process(node, 1, measured=True)
        return {
            "gate": _bursts(bare, "time_gate"),
            "gate_and_profile": _bursts(measured, "time_gate"),
            "iteration_block": _bursts(measured, "time_block"),
            "torch_hooks": _in_torch(node, 2),
        }


def _process(node: Node, gpu: int, measured: bool) -> PeerProcess:
    crowd = admit(node, 1, gpu)
    crowd.open_sessions(measured=measured)
    return crowd.processes[0]


def _bursts(process: PeerProcess, command: str) -> dict[str, float]:
    return _summary([process.do(command, times=TIMES)["nanoseconds"] for _ in range(BURSTS)])


def _in_torch(node: Node, gpu: int) -> dict[str, float]:
    container = node.container("torch", 100, gpu=gpu).await_socket()
    with tempfile.TemporaryDirectory() as work:
        process = torch_runtime().start(
            ["boundary_in_torch.py", str(BURSTS), str(TIMES)],
            Path(__file__).parent,
            Path(work),
            container.folder,
            LANEWAY_FIT="Off",  # it looks at what the backward pass saves, and no forward is run here
        )
        try:
            output, errors = process.communicate(timeout=TORCH_SECONDS)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    return _summary(json.loads(output.splitlines()[-1]))


def _summary(nanoseconds: list[float]) -> dict[str, float]:
    return {
        "median_us": round(statistics.median(nanoseconds) / 1000, 2),
        "fastest_us": round(min(nanoseconds) / 1000, 2),
    }


if __name__ == "__main__":
    write_measured(measure)
