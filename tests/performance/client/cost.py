"""What the client costs a training step: with a real agent and a simulated GPU, compared with a run without
the client.

    python -m tests.performance.client.cost -o result.json

Three processes train the same network, with steps of about 20 ms, on one core and never two at a time. One
runs without the client, one with it, and one with a client that measures as on a real GPU (hooks, turn and
the allocator's statistics, but no traced operations). They alternate, and so do steps with and without the
client's hooks in the same process, so that other load affects all alike. The addresses of a
process's memory affect a step more than the client does. So the cost is given within one process, and also
relative to the process without the client, over several sets of freshly started processes.

In a row, steps follow each other as in a training. Apart, every step comes right after one of another
process, which has emptied the core's caches.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.performance.node.crowd import node_with
from tests.performance.result_file import write_measured
from tests.support.client.jobs import SCRIPTS
from tests.support.node_agent.node import Node
from tests.support.torch_runtime import torch_runtime

NETWORKS = ("transformer", "cnn")
WAYS = ("plain", "laneway", "hooks")
SETS = 4
ROUNDS = {"in a row": (10, 10), "apart": (60, 1)}
"""Rounds, and the steps that each process does in one, with its hooks and without."""
SCRIPT = "timed_steps.py"
KEPT = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
"""The C library keeps freed tensors' memory: otherwise the kernel clears a random number of pages for each
step."""


@dataclass(frozen=True, slots=True)
class Step:
    """One training step."""

    wall_ns: int
    processor_ns: int
    """Of all threads of the process."""
    watched: bool
    """The client traced every operation of it."""


class Trainer:
    """A process that runs a requested number of steps."""

    def __init__(self, output: IO[str], orders: IO[str]) -> None:
        self._output = output
        self._orders = orders

    def steps(self, number: int, *, hooks: bool = True) -> list[Step]:
        """Runs steps; with the client's hooks, where it has the client."""
        self._orders.write(f"{number}\n" if hooks else f"{number} without\n")
        self._orders.flush()
        answer = self._output.readline()
        assert answer, "it ended; standard error says why"
        return [Step(*step) for step in json.loads(answer)]


def measure() -> dict[str, Any]:
    """Returns the cost of a step by network."""
    with node_with(gpus=2 * SETS * len(NETWORKS), lanes=1) as node:
        numbers = iter(range(2 * SETS * len(NETWORKS)))
        return {
            "rounds": {pace: {"rounds": rounds, "steps": steps} for pace, (rounds, steps) in ROUNDS.items()},
            "networks": [_network(node, network, numbers) for network in NETWORKS],
        }


def _network(node: Node, network: str, numbers: Iterator[int]) -> dict[str, Any]:
    batch = _batch(network)
    sets = [_set(node, network, batch, numbers) for _ in range(SETS)]
    return {"network": network, "batch": batch, "sets": sets}


def _batch(network: str) -> int:
    with tempfile.TemporaryDirectory() as work:
        process = torch_runtime().start([SCRIPT, network, "0", "plain"], SCRIPTS, Path(work), **KEPT)
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return int(json.loads(output)["batch"])


def _set(node: Node, network: str, batch: int, numbers: Iterator[int]) -> dict[str, Any]:
    with ExitStack() as stack:
        trainers = {way: stack.enter_context(_trainer(node, network, batch, way, numbers)) for way in WAYS}
        return {pace: _compared(trainers, rounds, steps) for pace, (rounds, steps) in ROUNDS.items()}


def _compared(trainers: Mapping[str, Trainer], rounds: int, steps: int) -> dict[str, Any]:
    found: dict[str, list[Step]] = {way: [] for way in WAYS}
    without: dict[str, list[Step]] = {way: [] for way in WAYS if way != "plain"}
    for round_ in range(rounds):
        shift = round_ % len(WAYS)
        for way in WAYS[shift:] + WAYS[:shift]:
            turns = [(found[way], True), (without[way], False)] if way in without else [(found[way], True)]
            for kept, hooks in turns if round_ % 2 else reversed(turns):
                kept.extend(trainers[way].steps(steps, hooks=hooks))
    watched = [step for step in found["laneway"] if step.watched]
    return {
        **{way: _summary(found[way], found["plain"]) for way in WAYS},
        **{f"{way} in itself": _summary(found[way], _unwatched(without[way])) for way in without},
        "watched": _summary(watched, found["plain"]) if watched else None,
        "watched_steps": len(watched),
    }


def _unwatched(steps: Iterable[Step]) -> list[Step]:
    """Without hooks, tracing that is active does not end."""
    return [step for step in steps if not step.watched]


@contextmanager
def _trainer(node: Node, network: str, batch: int, way: str, numbers: Iterator[int]) -> Iterator[Trainer]:
    folder = None
    if way != "plain":
        gpu = next(numbers)
        folder = node.container(f"{way}-{gpu}", 100, gpu=gpu).await_socket().folder
    with tempfile.TemporaryDirectory() as work:
        os.mkfifo(Path(work) / "go")
        # The fake allocator's figures never change: an iteration would seem not to fit, and would be made to.
        fit = {"LANEWAY_FIT": "Off"} if way == "hooks" else {}
        process = torch_runtime().start(
            [SCRIPT, network, str(batch), way], SCRIPTS, Path(work), folder, **KEPT, **fit
        )
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready, process.communicate()[1]
            with os.fdopen(
                os.open(Path(work) / "go", os.O_RDWR), "w", encoding="ascii"
            ) as orders:  # does not wait for others
                yield Trainer(process.stdout, orders)
        finally:
            process.kill()
            sys.stderr.write(process.communicate()[1])


def _summary(steps: Sequence[Step], plain: Sequence[Step]) -> dict[str, float]:
    """Returns medians, and how much longer than the plain process's they are."""
    wall_ms, plain_wall_ms = (_median_ms(step.wall_ns for step in each) for each in (steps, plain))
    processor_ms, plain_processor_ms = (
        _median_ms(step.processor_ns for step in each) for each in (steps, plain)
    )
    return {
        "wall_ms": round(wall_ms, 3),
        "processor_ms": round(processor_ms, 3),
        "longer_wall_percent": round(100 * (wall_ms / plain_wall_ms - 1), 2),
        "longer_processor_percent": round(100 * (processor_ms / plain_processor_ms - 1), 2),
    }


def _median_ms(nanoseconds: Iterable[int]) -> float:
    return statistics.median(nanoseconds) / 1e6


if __name__ == "__main__":
    write_measured(measure)
