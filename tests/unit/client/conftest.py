"""Clients in threads of the test process, each connected to a fake agent."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from laneway.client import runtime
from laneway.client.environment import Environment
from laneway.client.runtime import Client
from laneway.client.session import handshake

from tests.unit.client.fake_agent import TIMEOUT_SECONDS, FakeAgent


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: a socket's path has at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="lw-") as name:
        yield Path(name)


@pytest.fixture
def agent(folder: Path) -> Iterator[FakeAgent]:
    fake = FakeAgent(folder)
    yield fake
    fake.end()


@pytest.fixture
def make_client(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Client]]:
    """Makes clients whose agent is in `folder`; finishes them after the test, with their threads.

    They wait for a welcome as long as tests wait for other things: a client that has given up runs without turns.
    """
    monkeypatch.setattr(handshake, "ANSWER_TIMEOUT_SECONDS", TIMEOUT_SECONDS)
    monkeypatch.setattr(runtime, "FIRST_ANSWER_SECONDS", TIMEOUT_SECONDS)
    earlier = set(threading.enumerate())
    clients: list[Client] = []

    def make(agent_timeout_seconds: float = 0.3) -> Client:
        variables = {"LANEWAY_DIR": str(folder), "LANEWAY_AGENT_TIMEOUT_SECONDS": str(agent_timeout_seconds)}
        clients.append(Client(Environment.read(variables)))
        return clients[-1]

    yield make
    for client in clients:
        client.finish()
    for thread in set(threading.enumerate()) - earlier:
        if thread.name == "laneway":
            thread.join(TIMEOUT_SECONDS)
            assert not thread.is_alive(), "it might log a warning in a later test"


class Background:
    """Runs one call in a thread; `result` waits for it and raises its exception."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._raised: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as raised:
            self._raised = raised

    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> None:
        self._thread.join(TIMEOUT_SECONDS)
        assert not self._thread.is_alive(), "still waiting"
        if self._raised is not None:
            raise self._raised
