"""The workers of a gang stop after the same iteration although each is ordered separately, so none waits for
another inside one."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.client.jobs import Job
from tests.support.node_agent.node import Node, eventually
from tests.support.node_agent.shell import order

MakeNode = Callable[..., Node]
Run = Callable[..., Job]


class Workers:
    """Two ranks in separate pods; without a number of steps they train until the first is told to stop."""

    def __init__(self, run: Run, port: int, steps: int | None = None, node: Node | None = None) -> None:
        self.node = node
        environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
        self.jobs = [
            run(
                "offloaded_gang.py",
                str(steps or "enough"),
                "0" if steps else "0.01",
                container=None
                if node is None
                else node.container(f"worker-{rank}", 50, gpu=rank, spans_gpus=True),
                RANK=str(rank),
                **environment,
            )
            for rank in range(2)
        ]

    def reach(self, step: int) -> None:
        for job in self.jobs:
            while job.line() != f"step {step}":
                pass

    def give(self, verb: str) -> None:
        """Orders one worker after the other, as commands reach nodes."""
        assert self.node is not None
        for rank in range(2):
            order(self.node, verb, f"default/worker-{rank}")

    def await_state(self, state: str) -> list[int]:
        """Waits until both are in a state; returns how many iterations each has done."""
        node = self.node
        assert node is not None

        def states() -> set[str]:
            return {node.session(f"worker-{rank}")["state"] for rank in range(2)}

        eventually(f"both are {state}", lambda: states() == {state}, 60)
        return [node.session(f"worker-{rank}")["iterations"] for rank in range(2)]


def test_a_paused_and_offloaded_gang_ends_as_if_undisturbed(
    make_node: MakeNode, run: Run, rendezvous_port: Callable[[], int]
) -> None:
    workers = Workers(run, rendezvous_port(), node=make_node(turns={"timeoutSeconds": 120}))
    workers.reach(10)
    workers.give("pause")
    first, second = workers.await_state("Paused")
    assert first == second
    assert first > 10
    workers.give("resume")
    workers.reach(first + 10)

    workers.give("offload")
    first, second = workers.await_state("Offloaded")
    assert first == second
    workers.give("restore")
    workers.reach(first + 5)
    workers.jobs[0].enough()
    actual = [job.results() for job in workers.jobs]
    steps = len(actual[0][0]["losses"])
    assert actual == [job.results() for job in Workers(run, rendezvous_port(), steps).jobs]
