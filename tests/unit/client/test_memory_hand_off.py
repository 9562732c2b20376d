"""When a real GPU's unused blocks are freed: when the lane changes hands, and at no other boundary. With a
fake agent and allocator."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from laneway.client.memory.cuda_meter import CudaMeter
from laneway.client.runtime import Client

from tests.unit.client.conftest import Background
from tests.unit.client.fake_agent import KEEPS_MEMORY, KEPT_MEMORY, TIMEOUT_SECONDS, Connection, FakeAgent

GIB = 1 << 30


class Cuda:
    """What the meter uses of `torch.cuda`; records requests to free blocks, and what the agent had received
    by then."""

    def __init__(self) -> None:
        self.freed: list[str] = []
        self.received_state: Callable[[], str] = lambda: ""
        stats = {"allocated_bytes": {"all": {"current": 0, "peak": 0}}}
        self.private = SimpleNamespace(
            _cuda_memoryStats=lambda device: stats, _cuda_resetPeakMemoryStats=lambda device: None
        )

    def __getattr__(self, name: str) -> Any:
        return lambda *_: 0

    def is_initialized(self) -> bool:
        return True

    def _lazy_call(self, call: Callable[[], None]) -> None:
        call()

    def mem_get_info(self, device: int) -> tuple[int, int]:
        return 70 * GIB, 80 * GIB

    def synchronize(self, device: int | None) -> None:
        self.freed.append(f"waits{self.received_state()}")

    def empty_cache(self) -> None:
        self.freed.append(f"empties{self.received_state()}")


@pytest.fixture
def cuda() -> Cuda:
    return Cuda()


def trained(agent: FakeAgent, client: Client, cuda: Cuda, iterations: int) -> Connection:
    """Returns a session with its turn, in which this many iterations have run."""
    meter = CudaMeter(SimpleNamespace(cuda=cuda, _C=cuda.private))
    started = Background(lambda: client.start("torch 2.6.0", "cuda", meter))
    connection = agent.connection()
    connection.expect("request")
    connection.grant()
    started.result()
    for _ in range(iterations):
        client.guard.begin()
        client.guard.end()
    return connection


def has_received(connection: Connection, kind: str) -> bool:
    """Returns whether such a message has come and is unread."""
    return any(message["type"] == kind for message in list(connection.received.queue))


def await_release(connection: Connection) -> None:
    """Reads messages until the turn is released."""
    while connection.received.get(timeout=TIMEOUT_SECONDS)["type"] != "release":
        pass


def test_a_kept_turn_keeps_its_blocks(
    agent: FakeAgent, make_client: Callable[[], Client], cuda: Cuda
) -> None:
    trained(agent, make_client(), cuda, iterations=100)
    assert cuda.freed == []


@pytest.mark.parametrize("within", [True, False], ids=["in an iteration", "between iterations"])
def test_blocks_are_freed_once_before_the_release(
    agent: FakeAgent, make_client: Callable[[], Client], cuda: Cuda, within: bool
) -> None:
    client = make_client()
    connection = trained(agent, client, cuda, iterations=5)
    cuda.received_state = lambda: " too late" if has_received(connection, "release") else ""
    if within:
        client.guard.begin()
        connection.ask_back(page_only=True)
        client.guard.end()
    else:
        connection.ask_back()
    await_release(connection)
    assert cuda.freed == ["waits", "empties"]


def test_blocks_that_no_other_job_needs_are_kept(
    agent: FakeAgent, make_client: Callable[[], Client], cuda: Cuda
) -> None:
    connection = trained(agent, make_client(), cuda, iterations=5)
    connection.words[KEEPS_MEMORY] = 1
    connection.ask_back()
    await_release(connection)
    assert cuda.freed == ["waits"], "its work is done: turns are charged by the clock"
    assert connection.words[KEPT_MEMORY] == 1


def test_kept_blocks_are_freed_when_another_job_comes_to_need_them(
    agent: FakeAgent, make_client: Callable[[], Client], cuda: Cuda
) -> None:
    connection = trained(agent, make_client(), cuda, iterations=5)
    connection.words[KEEPS_MEMORY] = 1
    connection.ask_back()
    await_release(connection)
    connection.words[KEEPS_MEMORY] = 0
    connection.send("free")
    assert connection.expect("release")["turn"] == 0
    assert cuda.freed == ["waits", "waits", "empties"]
    assert connection.words[KEPT_MEMORY] == 0


def test_a_lost_turn_is_not_left_before_its_iteration_ends_although_memory_is_wanted(
    agent: FakeAgent, make_client: Callable[[], Client], cuda: Cuda
) -> None:
    client = make_client()
    connection = trained(agent, client, cuda, iterations=1)
    client.guard.begin()
    connection.revoke()
    connection.send("free")
    connection.send("offload")
    while (message := connection.received.get(timeout=TIMEOUT_SECONDS))["type"] != "refused":
        assert message["type"] != "release"
    # The client has read what came before the order that it refuses: a later release is not of that.
    client.guard.end()
    assert connection.expect("release")["turn"] == 1


def test_blocks_that_cannot_be_freed_do_not_keep_the_lane(
    agent: FakeAgent, make_client: Callable[[], Client], cuda: Cuda
) -> None:
    client = make_client()
    connection = trained(agent, client, cuda, iterations=2)

    def fail() -> str:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    cuda.received_state = fail
    connection.ask_back()
    await_release(connection)
