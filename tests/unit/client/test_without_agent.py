"""The script runs undisturbed without an agent, with one that refuses, and when the agent dies for good."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from laneway.client import runtime
from laneway.client.environment import Environment
from laneway.client.memory.meter import NoMeter
from laneway.client.runtime import Client
from laneway.client.session import handshake
from laneway.client.session.null_session import NullSession

from tests.unit.client.conftest import Background
from tests.unit.client.fake_agent import ITERATIONS, FakeAgent
from tests.unit.client.forking import in_forked_child
from tests.unit.client.waiting import wait_until


def iterate(client: Client, times: int = 3) -> None:
    for _ in range(times):
        client.guard.begin()
        client.guard.end()


def test_without_the_environment_there_is_no_thread_and_turns_are_free() -> None:
    client = Client(None)
    client.start()
    iterate(client)
    assert client.guard.iterations == 3
    assert isinstance(client.guard.session, NullSession)


def test_no_socket_is_not_waited_for(
    make_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "FIRST_ANSWER_SECONDS", 3600.0)
    client = make_client(agent_timeout_seconds=3600)
    Background(client.start).result()
    Background(lambda: iterate(client)).result()
    assert client.guard.iterations == 3


def stale_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(str(path))


def socket_of_another_kind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))


def no_socket(path: Path) -> None:
    path.write_text("")


def no_folder(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_text("")


@pytest.mark.parametrize("make", [stale_socket, socket_of_another_kind, no_socket, no_folder])
def test_a_listener_that_is_no_agent_is_ignored_silently(
    folder: Path,
    make: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    inside = folder / "run"
    inside.mkdir()
    make(inside / "agent.sock")
    client = Client(Environment.read({"LANEWAY_DIR": str(inside)}))
    client.start("torch 2.6.0", "cpu", NoMeter())
    iterate(client)
    client.finish()
    assert client.guard.iterations == 3
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_socket_without_permission_is_ignored_silently(folder: Path) -> None:
    agent = FakeAgent(folder)
    folder.chmod(0o755)
    agent.path.chmod(0o600)

    def as_another_user() -> bool:
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        else:
            agent.path.chmod(0)
        client = Client(Environment.read({"LANEWAY_DIR": str(folder)}))
        client.start("torch 2.6.0", "cpu", NoMeter())
        iterate(client)
        return client.guard.iterations == 3 and isinstance(client.guard.session, NullSession)

    assert in_forked_child(as_another_user)
    assert agent.accepted == 0
    agent.close()


def test_a_later_agent_is_found(make_client: Callable[[], Client], folder: Path) -> None:
    client = make_client()
    client.start()
    iterate(client)
    agent = FakeAgent(folder)
    connection = agent.connection()
    wait_until(lambda: not isinstance(client.guard.session, NullSession), "the session is attached")
    iterating = Background(lambda: iterate(client))
    connection.expect("request")
    connection.grant()
    iterating.result()
    assert connection.words[ITERATIONS] == 6, "the page counts all of the process's iterations"
    agent.close()


def test_a_refusal_is_logged_once(
    make_client: Callable[[], Client], folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = FakeAgent(folder, greet=False)
    client = make_client()
    starting = Background(client.start)
    for _ in range(3):
        agent.connection().send("error", reason="not a process of this container")
    starting.result()
    iterate(client)
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert "not a process of this container" in warnings[0].getMessage()
    agent.end()


def test_the_wait_for_a_silent_agent_is_bounded(folder: Path) -> None:
    agent = FakeAgent(folder, greet=False)
    client = Client(Environment.read({"LANEWAY_DIR": str(folder), "LANEWAY_AGENT_TIMEOUT_SECONDS": "0.3"}))
    Background(client.start).result()
    Background(lambda: iterate(client)).result()
    assert client.guard.iterations == 3
    agent.end()
    client.finish()


def test_the_script_waits_for_the_first_answer_within_its_own_bound(
    make_client: Callable[..., Client], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "FIRST_ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(handshake, "ANSWER_TIMEOUT_SECONDS", 3600.0)
    agent = FakeAgent(folder, greet=False)
    client = make_client()
    Background(client.start).result()
    Background(lambda: iterate(client)).result()
    agent.end()
    assert client.guard.iterations == 3


def test_an_agent_that_dies_during_a_wait_blocks_nobody(
    make_client: Callable[[], Client], agent: FakeAgent
) -> None:
    client = make_client()
    starting = Background(client.start)
    connection = agent.connection()
    connection.expect("request")
    agent.close()
    connection.cut()
    starting.result()
    iterate(client)
    assert client.guard.iterations == 3


@pytest.mark.parametrize(
    "packet",
    [b"not json", b"[]", b'{"type": 3}', b'{"type": "grant"}', b'{"type": "grant", "turn": "x"}'],
    ids=["no JSON", "no object", "type is no string", "no turn", "turn is no number"],
)
def test_an_invalid_packet_ends_the_session_but_not_the_script(
    make_client: Callable[[], Client], agent: FakeAgent, packet: bytes
) -> None:
    client = make_client()
    starting = Background(client.start)
    connection = agent.connection()
    connection.expect("request")
    agent.close()
    connection.send_raw(packet)
    assert connection.ended.wait(60)
    starting.result()
    iterate(client)


def test_a_message_of_a_later_protocol_is_ignored(
    make_client: Callable[[], Client], agent: FakeAgent
) -> None:
    client = make_client()
    starting = Background(client.start)
    connection = agent.connection()
    connection.expect("request")
    connection.send("applause", volume=11)
    connection.grant()
    starting.result()


def test_the_last_profile_is_sent_to_a_returning_agent(
    make_client: Callable[[], Client], agent: FakeAgent, folder: Path
) -> None:
    class Meter(NoMeter):
        def end(self) -> tuple[int, int]:
            return 1000, 3000

    client = make_client()
    starting = Background(lambda: client.start("torch 2.6.0", "cpu", Meter()))
    connection = agent.connection()
    connection.expect("request")
    connection.grant()
    starting.result()
    iterate(client, 3)
    profile = connection.expect("profile")
    assert (profile["persistent_bytes"], profile["ephemeral_bytes"]) == (1000, 2000)
    agent.close()
    connection.cut()
    again = FakeAgent(folder)
    second = again.connection()
    assert second.expect("profile") == profile
    again.close()
