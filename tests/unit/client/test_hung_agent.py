"""An agent that keeps its connection and does nothing any more, and one that only takes its time (docs/contracts.md, "An agent that hangs")."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from laneway.client.runtime import Client
from laneway.client.sign_of_life import LEAST_SECONDS, QUESTIONS, SignOfLife

from tests.unit.client.conftest import Background
from tests.unit.client.fake_agent import Connection, FakeAgent
from tests.unit.client.waiting import wait_until


class Asking:
    """A client that had a turn and gave it back, and waits for the next one."""

    def __init__(self, client: Client, agent: FakeAgent) -> None:
        agent.answers_ping = True
        starting = Background(client.start)
        self.gate = client.gate
        self.agent: Connection = agent.connection()
        self.agent.expect("request")
        self.agent.grant()
        starting.result()
        self.agent.ask_back()
        self.agent.expect("release")
        self.training = Background(self.iterate)
        self.agent.expect("request")

    def iterate(self) -> None:
        self.gate.begin()
        self.gate.end()


def test_a_silent_agent_is_lost_and_the_script_goes_on_without_turns(
    make_client: Callable[..., Client], agent: FakeAgent
) -> None:
    asking = Asking(make_client(agent_timeout_seconds=LEAST_SECONDS), agent)
    agent.greets = False  # who hangs answers no other connection either
    asking.agent.answers = False
    asking.training.result()
    assert asking.agent.pings > 1, "it was asked, again and again"
    assert asking.agent.ended.wait(10)
    assert not asking.gate.session.contested
    assert asking.gate.iterations == 1


def test_a_silent_agent_that_takes_a_new_connection_gives_turns_over_it(
    make_client: Callable[..., Client], agent: FakeAgent
) -> None:
    asking = Asking(make_client(agent_timeout_seconds=4 * LEAST_SECONDS), agent)
    asking.agent.answers = False
    again = agent.connection()
    assert again.welcomed.wait(10)
    assert again.hello["holds_turn"] is False
    again.expect("request")
    assert not asking.training.is_done()
    again.grant()
    asking.training.result()


@pytest.mark.parametrize("paused", [False, True])
def test_a_turn_may_be_as_long_in_coming_as_it_likes_while_the_agent_lives(
    make_client: Callable[..., Client], agent: FakeAgent, paused: bool
) -> None:
    asking = Asking(make_client(agent_timeout_seconds=2 * LEAST_SECONDS), agent)
    if paused:
        asking.agent.pause()
        asking.agent.expect("paused")
    wait_until(lambda: asking.agent.pings > QUESTIONS + 2, "it has asked for longer than a silent agent has")
    asking.agent.expect_nothing()
    assert not asking.training.is_done()
    assert asking.gate.session.contested
    if paused:
        asking.agent.resume()
    asking.agent.grant()
    asking.training.result()


class Clock:
    now_seconds = 100.0

    def __call__(self) -> float:
        return self.now_seconds


def test_asks_every_few_seconds_and_gives_up_after_the_time_of_an_agent_that_is_lost() -> None:
    clock = Clock()
    life = SignOfLife(60, clock)
    assert (life.is_to_ask(), life.until_question(None)) == (False, None), "nobody waits"
    life.await_turn()
    assert life.until_question(None) == life.until_question(30) == 5
    assert life.until_question(1) == 1
    for _ in range(11):
        assert not life.is_to_ask()
        assert not life.is_missing()
        clock.now_seconds += 5
        assert life.is_to_ask()
    clock.now_seconds += 4
    assert not life.is_missing()
    clock.now_seconds += 1
    assert life.is_missing()
    life.heard()
    assert not life.is_missing()


def test_what_was_silent_before_anybody_asked_says_nothing() -> None:
    clock = Clock()
    life = SignOfLife(60, clock)
    life.await_turn()
    clock.now_seconds += 1000
    assert life.is_to_ask()
    assert not life.is_missing(), "it was this process that stood still"
    life.await_turn()
    clock.now_seconds += 54
    assert not life.is_missing(), "another wait"


def test_an_agent_that_does_not_know_the_question_is_never_asked() -> None:
    clock = Clock()
    life = SignOfLife(math.inf, clock)
    life.await_turn()
    clock.now_seconds += 1e6
    assert not life.is_to_ask()
    assert not life.is_missing()
    assert life.until_question(7) == 7
    assert life.until_question(None) is None


def test_an_answer_has_a_while_however_short_the_time_that_is_set() -> None:
    clock = Clock()
    life = SignOfLife(0, clock)
    life.await_turn()
    clock.now_seconds += LEAST_SECONDS / QUESTIONS
    assert life.is_to_ask()
    assert not life.is_missing()
