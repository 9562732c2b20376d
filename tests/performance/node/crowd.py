"""A node with a real agent on simulated GPUs, and processes with the real client that share them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.performance.node.agent_cost import AgentCost
from tests.support.node_agent.node import Node, PeerProcess

CLIENT = Path(__file__).with_name("client_process.py")


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn as its process had it. Clock values are CLOCK_MONOTONIC, in nanoseconds."""

    number: int
    began_ns: int
    """When its first iteration began."""

    ended_ns: int
    """When its last iteration ended: from then on the turn is given back."""

    iterations: int


@dataclass(frozen=True, slots=True)
class Trained:
    """What a process did."""

    turns: tuple[Turn, ...]
    iteration_ends_ns: tuple[int, ...]
    began_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class Crowd:
    """The processes, each in a container and with a session of its own."""

    node: Node
    pods: tuple[str, ...]
    processes: tuple[PeerProcess, ...]

    def cost(self) -> AgentCost:
        """Return what the agent has cost so far."""
        return AgentCost.of(self.node.agent_pid)

    def open_sessions(self, **options: Any) -> None:
        """Have all of them open their sessions, and wait until they have."""
        for process in self.processes:
            process.start("open", **options)
        for pod, process in zip(self.pods, self.processes, strict=True):
            assert process.finish()["has_agent"], f"{pod} has no session with the agent"

    def start_training(self, **options: Any) -> None:
        """Have all of them train at the same time, as ``client_process.Trainer.train`` says, and wait for nothing."""
        for process in self.processes:
            process.start("train", **options)

    def await_training(self) -> tuple[Trained, ...]:
        """Wait until all have done that; returns what they did, in the order of the pods."""
        return tuple(_trained(process.finish(seconds=600)) for process in self.processes)

    def train(self, **options: Any) -> tuple[Trained, ...]:
        """Both of these."""
        self.start_training(**options)
        return self.await_training()

    def by_lane(self, trained: Sequence[Trained]) -> list[list[Trained]]:
        """Return what the processes did, put together for each lane of each GPU."""
        lane_of = {each["pod"]: (each["gpu"], each["lane"]) for each in self.node.get("/sessions")}
        lanes: dict[Any, list[Trained]] = {}
        for pod, each in zip(self.pods, trained, strict=True):
            lanes.setdefault(lane_of[pod], []).append(each)
        return list(lanes.values())


@contextmanager
def node_with(*, gpus: int = 1, lanes: int = 0, **turns: Any) -> Iterator[Node]:
    """Run an agent.

    Args:
        gpus: how many GPUs it has.
        lanes: most lanes of one GPU; 0 for as many as memory holds.
        turns: ``turns`` of its configuration, in the file's own spelling.
    """
    with tempfile.TemporaryDirectory(prefix="laneway-bench-") as folder:
        node = Node(
            Path(folder),
            gpus=gpus,
            lanes={"maxPerGpu": lanes},
            turns=turns,
            sharing="lanes",
        )
        try:
            yield node.start()
        finally:
            node.end()


def admit(node: Node, clients: int, gpu: int = 0, name: str = "pod") -> Crowd:
    """Start processes on a GPU, which share it in equal parts, and wait until they run."""
    # More would not fit beside others before it is measured.
    return admit_shares(node, [100 // clients] * clients, gpu, name)


def admit_shares(node: Node, percents: Sequence[int], gpu: int = 0, name: str = "pod") -> Crowd:
    """Start a process for each share of a GPU, and wait until they run."""
    pods = tuple(f"{name}-{gpu}-{number}" for number in range(len(percents)))
    containers = [node.container(pod, percent, gpu=gpu) for pod, percent in zip(pods, percents, strict=True)]
    processes = tuple(container.await_socket().process(CLIENT) for container in containers)
    assert all(process.pid for process in processes)
    return Crowd(node, pods, processes)


def _trained(answer: dict[str, Any]) -> Trained:
    turns = tuple(Turn(*numbers) for numbers in answer["turns"])
    return Trained(turns, tuple(answer["iteration_ends_ns"]), answer["began_ns"], answer["ended_ns"])
