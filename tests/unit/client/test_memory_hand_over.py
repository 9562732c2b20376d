"""When a real GPU's unused blocks go back: as the lane changes hands, and at no boundary without that. A client with an agent by hand, and an allocator by hand."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from laneway.client.cuda_memory import CudaMeter
from laneway.client.runtime import Client

from tests.unit.client.conftest import Background
from tests.unit.client.fake_agent import TIMEOUT_SECONDS, Connection, FakeAgent

GIB = 1 << 30


class Cuda:
    """What the meter uses of `torch.cuda`; it keeps what it was asked to do with blocks, and what the agent had heard by then."""

    def __init__(self) -> None:
        self.given_back: list[str] = []
        self.heard: Callable[[], str] = lambda: ""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: 0

    def is_initialized(self) -> bool:
        return True

    def _lazy_call(self, call: Callable[[], None]) -> None:
        call()

    def mem_get_info(self, device: int) -> tuple[int, int]:
        return 70 * GIB, 80 * GIB

    def synchronize(self, device: int | None) -> None:
        self.given_back.append(f"waits{self.heard()}")

    def empty_cache(self) -> None:
        self.given_back.append(f"empties{self.heard()}")


@pytest.fixture
def cuda() -> Cuda:
    return Cuda()


def trained(agent: FakeAgent, client: Client, cuda: Cuda, iterations: int) -> Connection:
    """A session with its turn, in which so many iterations have run."""
    meter = CudaMeter(SimpleNamespace(cuda=cuda, _C=SimpleNamespace()))
    started = Background(lambda: client.start("torch 2.6.0", "cuda", meter))
    connection = agent.connection()
    connection.expect("request")
    connection.grant()
    started.result()
    for _ in range(iterations):
        client.gate.begin()
        client.gate.end()
    return connection


def said(connection: Connection, kind: str) -> bool:
    """Whether such a message has come, which nobody has read yet."""
    return any(message["type"] == kind for message in list(connection.received.queue))


def await_release(connection: Connection) -> None:
    """Reads on until the turn is given back."""
    while connection.received.get(timeout=TIMEOUT_SECONDS)["type"] != "release":
        pass


def test_a_turn_that_is_kept_keeps_its_blocks(
    agent: FakeAgent, make_client: Callable[[], Client], cuda: Cuda
) -> None:
    trained(agent, make_client(), cuda, iterations=100)
    assert cuda.given_back == []


@pytest.mark.parametrize("within", [True, False], ids=["in an iteration", "between iterations"])
def test_blocks_go_back_once_before_the_turn_does(
    agent: FakeAgent, make_client: Callable[[], Client], cuda: Cuda, within: bool
) -> None:
    client = make_client()
    connection = trained(agent, client, cuda, iterations=5)
    cuda.heard = lambda: " too late" if said(connection, "release") else ""
    if within:
        client.gate.begin()
        connection.ask_back(page_only=True)
        client.gate.end()
    else:
        connection.ask_back()
    await_release(connection)
    assert cuda.given_back == ["waits", "empties"]


def test_blocks_that_cannot_be_given_back_do_not_keep_the_lane(
    agent: FakeAgent, make_client: Callable[[], Client], cuda: Cuda
) -> None:
    client = make_client()
    connection = trained(agent, client, cuda, iterations=2)

    def fail() -> str:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    cuda.heard = fail
    connection.ask_back()
    await_release(connection)
