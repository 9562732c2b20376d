"""Forked children, and processes that multiprocessing starts, are no part of their parent's session."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable

import pytest
from laneway.client.detached import Detached
from laneway.client.process_kind import is_multiprocessing_child
from laneway.client.runtime import Client

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
    client.gate.begin()

    def child() -> bool:
        free = isinstance(client.gate.session, Detached) and not client.gate.inside and not client.started
        for _ in range(5):
            client.gate.begin()
            client.gate.end()
        client.finish()
        return free

    assert in_forked_child(child)
    assert connection.words[ITERATIONS] == 0
    connection.expect_nothing()
    client.gate.end()
    connection.ask_back()
    assert connection.expect("release")["iterations"] == 1


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_the_parents_end_is_seen_although_a_child_lives_on(
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
    assert connection.ended.wait(10), "no copy of the connection is left open in the child"
    os.write(go_on_write, b"!")
    os.waitpid(child, 0)
    for descriptor in (ready_read, ready_write, go_on_read, go_on_write):
        os.close(descriptor)


@pytest.mark.parametrize("start", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_children_of_multiprocessing_are_known(start: str) -> None:
    context = multiprocessing.get_context(start)
    with context.Pool(1) as pool:
        assert pool.apply(is_multiprocessing_child)
    assert not is_multiprocessing_child()
