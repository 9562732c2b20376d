"""What the launch gate costs a launch while it is open: the same launches through the interposer and past it, in turns.

    python -m tests.performance.node.launch_gate -o launch_gate.json

One C program holds the turn of a real agent's lane and launches kernels on the fake driver of `tests/isolation`, whose launch
does next to nothing. First the program only launches, which gives the gate's cost. Then it computes between launches, so that
one takes 10 µs on a quiet machine. The driver's `cuCtxGetCurrent`, which the gate calls, is the fake one.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from tests.performance.node.crowd import node_with
from tests.performance.result_file import write_measured
from tests.support.isolation.building import fake_driver, program, shipped_interposer
from tests.support.isolation.fake_devices import MIB, make_device
from tests.support.node_agent.node import Node, enter, eventually

LAUNCH_NANOSECONDS = 10_000
BURSTS = 200
LAUNCHES = 1_000


def measure() -> dict[str, Any]:
    """Return nanoseconds for a launch, with the open gate and without the library."""
    with node_with(gpus=3) as node, tempfile.TemporaryDirectory(prefix="laneway-devices-") as folder:
        make_device(Path(folder), 0, 1024 * MIB)
        bare = summary_of_pairs(_pairs(node, 0, Path(folder), work=0))
        calibrated = summary_of_pairs(_pairs(node, 1, Path(folder), work=1_000))
        steps = 1_000 * LAUNCH_NANOSECONDS / calibrated["without_nanoseconds"]
        return {
            "bursts": BURSTS,
            "launches": LAUNCHES,
            "bare": bare,
            "ten_microseconds": summary_of_pairs(_pairs(node, 2, Path(folder), work=round(steps))),
            "percent_of_ten_microseconds": round(100 * bare["cost_nanoseconds"] / LAUNCH_NANOSECONDS, 2),
        }


def _pairs(node: Node, gpu: int, devices: Path, work: int) -> list[tuple[float, float]]:
    """Return nanoseconds for a launch, in each pair of bursts."""
    pod = f"launches-{gpu}"
    container = node.container(pod, 100, gpu=gpu).await_socket()
    command = [*enter(container), "env", f"LD_PRELOAD={shipped_interposer()}"]
    command += [f"LD_LIBRARY_PATH={fake_driver()}", f"FAKE_CUDA_DEVICES={devices}"]
    command += [str(program("launch_timing")), str(LAUNCHES), str(BURSTS), str(work)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    eventually("its turn has ended", lambda: node.session(pod)["state"] != "Holding")
    assert node.session(pod)["turns"] == 1, "it keeps its turn from the first launch to the last"
    lines = [line.split() for line in done.stdout.splitlines()]
    return [(int(gated) / LAUNCHES, int(past) / LAUNCHES) for gated, past in lines]


def summary_of_pairs(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """Return medians; the cost is the median of the pairs' differences, because the machine's speed changes."""
    past = statistics.median(pair[1] for pair in pairs)
    cost = statistics.median(gated - without for gated, without in pairs)
    return {
        "gated_nanoseconds": round(statistics.median(pair[0] for pair in pairs), 1),
        "without_nanoseconds": round(past, 1),
        "cost_nanoseconds": round(cost, 1),
        "cost_percent": round(100 * cost / past, 2),
    }


if __name__ == "__main__":
    write_measured(measure)
