"""An agent that dies and comes back: the iteration goes on, and the lane keeps one holder (docs/contracts.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from laneway.client.runtime import Client

from tests.unit.client.conftest import Background
from tests.unit.client.fake_agent import INSIDE, ITERATIONS, Connection, FakeAgent
from tests.unit.client.waiting import wait_until


class Restart:
    """A client with a turn, whose agent can be replaced."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.gate = client.gate
        self._folder = folder
        self._agent = FakeAgent(folder)
        starting = Background(client.start)
        self.agent: Connection = self._agent.connection()
        self.agent.expect("request")
        self.agent.grant()
        starting.result()

    def kill(self) -> None:
        """The agent dies."""
        self._agent.close()
        self.agent.cut()
        wait_until(lambda: not self.gate.session.contested, "the client notices")

    def bring_back(self) -> Connection:
        """Another agent listens at the same place; returns once the client has been welcomed."""
        self._agent = FakeAgent(self._folder)
        self.agent = self._agent.connection()
        self.agent.welcomed.wait(10)
        return self.agent

    def iterate(self, times: int = 1) -> None:
        for _ in range(times):
            self.gate.begin()
            self.gate.end()

    def close(self) -> None:
        self._agent.close()


@pytest.fixture
def restart(make_client: Callable[..., Client], folder: Path) -> Iterator[Restart]:
    case = Restart(make_client(agent_timeout_seconds=60), folder)
    yield case
    case.close()


def test_waits_for_an_agent_that_comes_back_and_asks_it(restart: Restart) -> None:
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


def test_who_notices_late_that_the_session_is_over_does_not_take_the_next_one_away(restart: Restart) -> None:
    """The thread that waited may have been stopped between finding its session closed and saying so."""
    restart.iterate()
    restart.kill()
    agent = restart.bring_back()
    wait_until(lambda: restart.gate.session.contested, "the next session is there")
    restart.gate.detach()
    waiting = Background(restart.iterate)
    agent.expect("request")
    agent.grant()
    waiting.result()


def test_goes_on_without_turns_when_the_agent_does_not_come_back(
    make_client: Callable[..., Client], folder: Path
) -> None:
    case = Restart(make_client(agent_timeout_seconds=0.5), folder)
    case.kill()
    Background(lambda: case.iterate(3)).result()
    assert case.gate.iterations == 3


def test_the_time_that_the_agent_has_runs_from_its_loss_and_not_from_each_iteration(
    make_client: Callable[..., Client], folder: Path
) -> None:
    case = Restart(make_client(agent_timeout_seconds=0.5), folder)
    case.kill()
    case.iterate()
    Background(
        lambda: case.iterate(1000)
    ).result()  # over 8 minutes, were each to wait anew: far beyond its deadline


def test_keeps_the_turn_for_the_iteration_that_it_is_in(restart: Restart) -> None:
    restart.gate.begin()
    restart.kill()
    agent = restart.bring_back()
    assert agent.hello["holds_turn"] is True
    agent.grant()
    agent.ask_back()
    wait_until(lambda: agent.words[INSIDE] == 1, "the client has written its state into the new page")
    agent.expect_nothing()
    restart.gate.end()
    assert agent.expect("release")["turn"] == 1
    assert (agent.words[INSIDE], agent.words[ITERATIONS]) == (0, 1)


def test_keeps_the_turn_for_iterations_after_it_while_nobody_asks(restart: Restart) -> None:
    restart.gate.begin()
    restart.kill()
    agent = restart.bring_back()
    agent.grant()
    restart.gate.end()
    restart.iterate(5)
    agent.expect_nothing()
    agent.ask_back()
    # The first of the six may have ended before the client read the grant, which it counts from.
    assert agent.expect("release")["iterations"] in (5, 6)


def test_an_iteration_whose_turn_the_new_agent_has_given_away_ends_and_the_next_asks(
    restart: Restart,
) -> None:
    restart.gate.begin()
    restart.kill()
    agent = restart.bring_back()
    agent.revoke(0)
    restart.gate.end()
    agent.expect_nothing()
    again = Background(restart.iterate)
    agent.expect("request")
    agent.grant()
    again.result()


def test_an_iteration_that_ended_before_the_agent_came_back_holds_no_turn(restart: Restart) -> None:
    restart.gate.begin()
    restart.kill()
    restart.gate.end()
    agent = restart.bring_back()
    assert agent.hello["holds_turn"] is False
    assert agent.words[INSIDE] == 0
    again = Background(restart.iterate)
    agent.expect("request")
    agent.grant()
    again.result()
