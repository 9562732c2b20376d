"""An agent that dies and returns: the iteration continues, and the lane keeps one holder (docs/contracts.md)."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from laneway.client.runtime import Client
from laneway.client.session.null_session import NullSession
from laneway.client.session.session import Session

from tests.unit.client.conftest import Background
from tests.unit.client.fake_agent import INSIDE, ITERATIONS, Connection, FakeAgent
from tests.unit.client.waiting import wait_until


class Restart:
    """A client with a turn, whose agent can be replaced."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.guard = client.guard
        self._folder = folder
        self._agent = FakeAgent(folder)
        starting = Background(client.start)
        self.agent: Connection = self._agent.connection()
        self.agent.expect("request")
        self.agent.grant()
        starting.result()

    def kill(self) -> None:
        """Ends the agent."""
        self._agent.close()
        self.agent.cut()
        wait_until(lambda: not self.guard.session.has_agent, "the client notices")

    def bring_back(self) -> Connection:
        """Starts another agent at the same place; returns once the client has been welcomed."""
        self._agent = FakeAgent(self._folder)
        self.agent = self._agent.connection()
        self.agent.welcomed.wait(60)
        return self.agent

    def iterate(self, times: int = 1) -> None:
        for _ in range(times):
            self.guard.begin()
            self.guard.end()

    def close(self) -> None:
        self._agent.close()


def is_pausing(session: Session | NullSession) -> bool:
    return isinstance(session, Session) and session.pause.is_pausing


@pytest.fixture
def restart(make_client: Callable[..., Client], folder: Path) -> Iterator[Restart]:
    case = Restart(make_client(agent_timeout_seconds=60), folder)
    yield case
    case.close()


def test_an_ended_session_is_freed_with_its_descriptors_at_once(restart: Restart) -> None:
    collects = gc.isenabled()
    gc.disable()
    try:
        ended = weakref.ref(restart.guard.session)
        restart.kill()
        restart.bring_back()
        wait_until(lambda: ended() is None, "nothing refers to it any more")
    finally:
        if collects:
            gc.enable()


def test_waits_for_the_agents_return_and_requests_a_turn(restart: Restart) -> None:
    restart.iterate(2)
    restart.kill()
    waiting = Background(restart.iterate)
    agent = restart.bring_back()
    agent.expect("request")
    assert not waiting.is_done()
    assert agent.hello["holds_turn"] is False
    agent.grant()
    waiting.result()
    assert agent.words[ITERATIONS] == 3, "the page counts all of the process's iterations"


def test_noticing_late_that_a_session_has_ended_does_not_end_the_next_one(restart: Restart) -> None:
    """The waiting thread may have been interrupted between finding its session closed and acting on it."""
    restart.iterate()
    restart.kill()
    agent = restart.bring_back()
    wait_until(lambda: restart.guard.session.has_agent, "the next session is there")
    restart.guard.detach()
    waiting = Background(restart.iterate)
    agent.expect("request")
    agent.grant()
    waiting.result()


def test_goes_on_without_turns_if_the_agent_does_not_return(
    make_client: Callable[..., Client], folder: Path
) -> None:
    case = Restart(make_client(agent_timeout_seconds=0.5), folder)
    case.kill()
    Background(lambda: case.iterate(3)).result()
    assert case.guard.iterations == 3


def test_the_agents_time_to_return_counts_from_its_loss(
    make_client: Callable[..., Client], folder: Path
) -> None:
    case = Restart(make_client(agent_timeout_seconds=0.5), folder)
    case.kill()
    case.iterate()
    Background(
        lambda: case.iterate(1000)
    ).result()  # over 8 minutes if each iteration waited: far beyond its deadline


def test_keeps_the_turn_for_the_current_iteration(restart: Restart) -> None:
    restart.guard.begin()
    restart.kill()
    agent = restart.bring_back()
    assert agent.hello["holds_turn"] is True
    agent.grant()
    agent.ask_back()
    wait_until(lambda: agent.words[INSIDE] == 1, "the client has written its state into the new page")
    agent.expect_nothing()
    restart.guard.end()
    assert agent.expect("release")["turn"] == 1
    assert (agent.words[INSIDE], agent.words[ITERATIONS]) == (0, 1)


def test_keeps_the_turn_for_further_iterations_while_nobody_waits(restart: Restart) -> None:
    restart.guard.begin()
    restart.kill()
    agent = restart.bring_back()
    agent.grant()
    restart.guard.end()
    restart.iterate(5)
    agent.expect_nothing()
    agent.ask_back()
    # The first of the six may have ended before the client read the grant, from which it counts.
    assert agent.expect("release")["iterations"] in (5, 6)


def test_an_iteration_whose_turn_the_new_agent_revokes_ends_and_the_next_requests_one(
    restart: Restart,
) -> None:
    restart.guard.begin()
    restart.kill()
    agent = restart.bring_back()
    agent.revoke(0)
    restart.guard.end()
    agent.expect_nothing()
    again = Background(restart.iterate)
    agent.expect("request")
    agent.grant()
    again.result()


def test_a_pause_is_answered_at_the_end_of_an_iteration_whose_turn_the_new_agent_revoked(
    restart: Restart,
) -> None:
    restart.guard.begin()
    restart.kill()
    agent = restart.bring_back()
    agent.revoke(0)
    agent.pause()
    wait_until(lambda: is_pausing(restart.guard.session), "the client has read of the pause")
    agent.expect_nothing()
    restart.guard.end()
    agent.expect("paused")


def test_an_iteration_whose_turn_is_awaited_releases_it_at_its_end(restart: Restart) -> None:
    restart.guard.begin()
    restart.kill()
    agent = restart.bring_back()
    agent.revoke(7)
    restart.guard.end()
    assert agent.expect("release")["turn"] == 7
    again = Background(restart.iterate)
    agent.expect("request")
    agent.grant()
    again.result()


def test_an_awaited_turn_whose_iteration_ended_while_disconnected_is_released_at_once(
    restart: Restart,
) -> None:
    restart.guard.begin()
    restart.kill()
    restart.guard.end()
    agent = restart.bring_back()
    agent.revoke(7)
    assert agent.expect("release")["turn"] == 7
    agent.expect_nothing()


def test_an_iteration_that_ended_before_the_agent_came_back_holds_no_turn(restart: Restart) -> None:
    restart.guard.begin()
    restart.kill()
    restart.guard.end()
    agent = restart.bring_back()
    assert agent.hello["holds_turn"] is False
    assert agent.words[INSIDE] == 0
    again = Background(restart.iterate)
    agent.expect("request")
    agent.grant()
    again.result()
