"""How a process executes orders to move memory: when, in which thread, and what it answers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from laneway.client.offload.offloader import CannotMoveError
from laneway.client.runtime import Client

from tests.unit.client.conftest import Background
from tests.unit.client.fake_agent import HELD_BYTES, Connection, FakeAgent
from tests.unit.client.waiting import wait_until


class Memory:
    """A framework's memory: 100 bytes that can be moved."""

    simulated = False

    def __init__(self) -> None:
        self.on_device = True
        self.moves: list[str] = []
        self.threads: set[str] = set()
        self.refuses_out = ""
        self.full = 0
        """How often the device has no free memory."""
        self.may_move = threading.Event()
        self.may_move.set()

    def move_out(self) -> int:
        self.threads.add(threading.current_thread().name)
        self.moves.append("out")
        assert self.may_move.wait(60)
        if self.refuses_out:
            raise CannotMoveError(self.refuses_out)
        assert self.on_device
        self.on_device = False
        return 100

    def move_back(self) -> None:
        self.threads.add(threading.current_thread().name)
        self.moves.append("back")
        assert self.may_move.wait(60)
        if self.full:
            self.full -= 1
            raise CannotMoveError("no room") from MemoryError("the device is full")
        self.on_device = True

    def held_bytes(self) -> int:
        return 100 if self.on_device else 0


class Moving:
    """A client with movable memory that had its first turn, released it, and is paused."""

    def __init__(self, client: Client, agent: FakeAgent) -> None:
        self.memory = Memory()
        self.client = client
        self.guard = client.guard
        starting = Background(lambda: client.start("torch 2.6.0", "cpu", mover=self.memory))
        self.agent: Connection = agent.connection()
        self.agent.expect("request")
        self.agent.grant()
        starting.result()
        self.agent.pause()
        self.agent.expect("release")
        self.agent.expect("paused")

    def iterate(self) -> None:
        self.guard.begin()
        assert self.memory.on_device, "an iteration runs with its memory"
        self.guard.end()

    def offload(self) -> Background:
        """Enters its next iteration, and is offloaded while it waits for the turn."""
        iteration = Background(self.iterate)
        self.agent.expect("request")
        self.agent.send("offload")
        self.agent.expect("offloaded")
        return iteration


@pytest.fixture
def moving(make_client: Callable[[], Client], agent: FakeAgent) -> Iterator[Moving]:
    case = Moving(make_client(), agent)
    yield case
    case.memory.may_move.set()


def test_hello_announces_its_capabilities(moving: Moving) -> None:
    assert moving.agent.hello["can"] == ["pause", "offload", "hand_over"]
    assert moving.agent.hello["offloaded"] is False
    hello = moving.agent.hello
    assert (hello["gpu"], hello["local_rank"]) == (None, 0), "the agent chooses the GPU"


def test_moves_only_where_the_script_waits_for_a_turn(moving: Moving) -> None:
    moving.agent.send("offload")
    moving.agent.ask_back()  # once this is read, everything sent before it has been read as well
    wait_until(lambda: moving.guard.offload.pending, "the order is known")
    assert moving.memory.moves == [], "the script may be using its tensors"
    iteration = Background(moving.iterate)
    offloaded = moving.agent.expect("offloaded")
    assert (offloaded["freed_bytes"], offloaded["seconds"] >= 0) == (100, True)
    assert not moving.memory.on_device
    assert not iteration.is_done()
    assert moving.agent.words[HELD_BYTES] == 0

    moving.agent.expect("request")
    moving.agent.send("restore")
    moving.agent.expect("restored")
    assert moving.memory.on_device
    assert not iteration.is_done(), "there is no turn yet"
    moving.agent.resume()
    moving.agent.grant()
    iteration.result()
    assert moving.agent.words[HELD_BYTES] == 100
    assert moving.memory.threads == {"laneway-offload"}, "none of the script's modes holds there"


def test_moves_while_it_is_already_waiting(moving: Moving) -> None:
    iteration = Background(moving.iterate)
    moving.agent.expect("request")
    moving.agent.send("offload")
    moving.agent.expect("offloaded")
    moving.agent.send("restore")
    moving.agent.expect("restored")
    moving.agent.resume()
    moving.agent.grant()
    iteration.result()


def test_an_order_withdrawn_in_time_moves_nothing(moving: Moving) -> None:
    moving.agent.send("offload")
    wait_until(lambda: moving.guard.offload.pending, "the order is known")
    moving.agent.send("restore")
    moving.agent.expect("restored")
    assert moving.memory.moves == []


def test_an_order_withdrawn_during_the_move_is_undone(moving: Moving) -> None:
    moving.memory.may_move.clear()
    moving.agent.send("offload")
    wait_until(lambda: moving.guard.offload.pending, "the order is known")
    iteration = Background(moving.iterate)
    wait_until(lambda: moving.memory.moves, "it moves")
    moving.agent.send("restore")
    moving.memory.may_move.set()
    moving.agent.expect_all("offloaded", "restored", "request")
    assert moving.memory.moves == ["out", "back"]
    moving.agent.resume()
    moving.agent.grant()
    iteration.result()


def test_refuses_with_a_reason_and_changes_nothing(moving: Moving) -> None:
    moving.memory.refuses_out = "it has captured CUDA graphs"
    moving.agent.send("offload")
    wait_until(lambda: moving.guard.offload.pending, "the order is known")
    iteration = Background(moving.iterate)
    refused = moving.agent.expect("refused")
    assert (refused["order"], refused["message"]) == ("offload", "it has captured CUDA graphs")
    moving.agent.expect("request")
    moving.agent.resume()
    moving.agent.grant()
    iteration.result()


def test_a_restore_without_free_memory_can_be_retried(moving: Moving) -> None:
    iteration = moving.offload()
    moving.memory.full = 1
    moving.agent.send("restore")
    assert moving.agent.expect("refused")["order"] == "restore"
    moving.agent.send("restore")
    moving.agent.expect("restored")
    moving.agent.resume()
    moving.agent.grant()
    iteration.result()


def test_a_turn_that_comes_too_early_waits_for_the_memory(moving: Moving) -> None:
    iteration = moving.offload()
    moving.agent.words[3] = 0
    moving.agent.grant()
    iteration.result()
    assert moving.memory.moves == ["out", "back"]
    moving.agent.expect("restored")


def test_without_free_memory_the_script_gets_the_frameworks_error(moving: Moving) -> None:
    iteration = moving.offload()
    moving.memory.full = 3
    moving.agent.grant()
    with pytest.raises(MemoryError, match="the device is full"):
        iteration.result()


def test_an_unknown_framework_refuses(make_client: Callable[[], Client], agent: FakeAgent) -> None:
    client = make_client()
    starting = Background(lambda: client.start("jax 0.5", "cuda"))
    connection = agent.connection()
    connection.expect("request")
    connection.grant()
    starting.result()
    assert connection.hello["can"] == ["pause", "hand_over"]
    connection.send("offload")
    assert "this framework's memory cannot be moved" in connection.expect("refused")["message"]


def test_a_returning_agent_is_told_where_the_memory_is(
    make_client: Callable[..., Client], folder: Path
) -> None:
    first = FakeAgent(folder)
    moving = Moving(make_client(agent_timeout_seconds=60), first)
    iteration = moving.offload()
    first.close()
    moving.agent.cut()
    second = FakeAgent(folder)
    moving.agent = second.connection()
    assert moving.agent.welcomed.wait(60)
    assert moving.agent.hello["offloaded"] is True
    moving.agent.expect("request")
    moving.agent.send("restore")
    moving.agent.expect("restored")
    moving.agent.grant()
    iteration.result()
    second.close()


def test_without_the_agents_return_the_script_goes_on_with_its_memory(
    make_client: Callable[..., Client], folder: Path
) -> None:
    agent = FakeAgent(folder)
    moving = Moving(make_client(agent_timeout_seconds=0.3), agent)
    iteration = moving.offload()
    agent.close()
    moving.agent.cut()
    iteration.result()
    assert moving.memory.on_device


def test_a_stopping_script_has_its_memory_in_the_handler_and_keeps_it(moving: Moving) -> None:
    """In the main thread, where signals arrive."""
    seen: list[bool] = []

    class StopError(Exception):
        pass

    def handler(*_: object) -> None:
        seen.append(moving.memory.on_device)
        raise StopError

    before = signal.signal(signal.SIGTERM, handler)
    try:
        moving.agent.send("offload")
        wait_until(lambda: moving.guard.offload.pending, "the order is known")

        def stop() -> None:
            moving.agent.expect("offloaded")
            moving.agent.expect("request")
            os.kill(os.getpid(), signal.SIGTERM)

        stopping = Background(stop)
        with pytest.raises(StopError):
            moving.iterate()
        stopping.result()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [True]
    moving.agent.expect("restored")
    moving.agent.send("offload")
    assert "asked to stop" in moving.agent.expect("refused")["message"]
