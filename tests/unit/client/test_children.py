"""Forked children and processes started by multiprocessing are not part of their parent's session."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable

import pytest
from laneway.client.process_kind import is_multiprocessing_child
from laneway.client.runtime import Client
from laneway.client.session.null_session import NullSession

from tests.unit.client.conftest import Background
from tests.unit.client.fake_agent import ITERATIONS, FakeAgent
from tests.unit.client.forking import in_forked_child


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_touch_its_parents_session(
    make_client: Callable[[], Client], agent: FakeAgent
) -> None:
    client = make_client()
    starting = Background(client.start)
    connection = agent.connection()
    connection.expect("request")
    connection.grant()
    starting.result()
    client.guard.begin()

    def child() -> bool:
        free = (
            isinstance(client.guard.session, NullSession)
            and not client.guard.iteration_session
            and not client.started
        )
        for _ in range(5):
            client.guard.begin()
            client.guard.end()
        client.finish()
        return free

    assert in_forked_child(child)
    assert connection.words[ITERATIONS] == 0
    connection.expect_nothing()
    client.guard.end()
    connection.ask_back()
    assert connection.expect("release")["iterations"] == 1


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_the_agent_sees_the_parents_end_while_a_child_lives(
    make_client: Callable[[], Client], agent: FakeAgent
) -> None:
    client = make_client()
    starting = Background(client.start)
    connection = agent.connection()
    connection.expect("request")
    connection.grant()
    starting.result()
    ready_read, ready_write = os.pipe()
    go_on_read, go_on_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready_write, b"!")
        os.read(go_on_read, 1)
        os._exit(0)
    os.read(ready_read, 1)
    client.finish()
    connection.expect("release")
    connection.expect("goodbye")
    assert connection.ended.wait(60), "no copy of the connection is left open in the child"
    os.write(go_on_write, b"!")
    os.waitpid(child, 0)
    for descriptor in (ready_read, ready_write, go_on_read, go_on_write):
        os.close(descriptor)


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_children_of_multiprocessing_are_recognised(start: str) -> None:
    context = multiprocessing.get_context(start)
    with context.Pool(1) as pool:
        assert pool.apply(is_multiprocessing_child)
    assert not is_multiprocessing_child()
