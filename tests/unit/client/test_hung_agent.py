"""An agent that hangs with its connection open, and one that is only slow (docs/contracts.md, "An agent that
hangs")."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from laneway.client.runtime import Client
from laneway.client.session.keepalive import MIN_TIMEOUT_SECONDS, PINGS_PER_TIMEOUT, Keepalive

from tests.unit.client.conftest import Background
from tests.unit.client.fake_agent import TIMEOUT_SECONDS, Connection, FakeAgent
from tests.unit.client.waiting import wait_until


class Asking:
    """A client that had a turn, released it, and waits for the next one."""

    def __init__(self, client: Client, agent: FakeAgent) -> None:
        agent.answers_ping = True
        starting = Background(client.start)
        self.guard = client.guard
        self.agent: Connection = agent.connection()
        self.agent.expect("request")
        self.agent.grant()
        starting.result()
        self.agent.ask_back()
        self.agent.expect("release")
        self.training = Background(self.iterate)
        self.agent.expect("request")

    def iterate(self) -> None:
        self.guard.begin()
        self.guard.end()


def test_a_silent_agent_counts_as_lost_and_the_script_runs_without_turns(
    make_client: Callable[..., Client], agent: FakeAgent
) -> None:
    asking = Asking(make_client(agent_timeout_seconds=MIN_TIMEOUT_SECONDS), agent)
    agent.greets = False  # an agent that hangs answers no other connection either
    asking.agent.answers = False
    asking.training.result()
    assert asking.agent.pings > 1, "it was asked, again and again"
    assert asking.agent.ended.wait(60)
    assert not asking.guard.session.has_agent
    assert asking.guard.iterations == 1


def test_a_silent_agent_that_accepts_a_new_connection_grants_turns_on_it(
    make_client: Callable[..., Client], agent: FakeAgent
) -> None:
    asking = Asking(make_client(agent_timeout_seconds=4 * MIN_TIMEOUT_SECONDS), agent)
    # A silent agent counts as lost after 4 s; its return may take longer on a busy machine.
    asking.guard._agent_timeout_seconds = TIMEOUT_SECONDS
    asking.agent.answers = False
    again = agent.connection()
    assert again.welcomed.wait(60)
    assert again.hello["holds_turn"] is False
    again.expect("request")
    assert not asking.training.is_done()
    again.grant()
    asking.training.result()


@pytest.mark.parametrize("paused", [False, True])
def test_a_turn_may_take_any_time_while_the_agent_answers(
    make_client: Callable[..., Client], agent: FakeAgent, paused: bool
) -> None:
    asking = Asking(make_client(agent_timeout_seconds=2 * MIN_TIMEOUT_SECONDS), agent)
    if paused:
        asking.agent.pause()
        asking.agent.expect("paused")
    wait_until(
        lambda: asking.agent.pings > PINGS_PER_TIMEOUT + 2, "it has asked for longer than a silent agent has"
    )
    asking.agent.expect_nothing()
    assert not asking.training.is_done()
    assert asking.guard.session.has_agent
    if paused:
        asking.agent.resume()
    asking.agent.grant()
    asking.training.result()


class Clock:
    now_seconds = 100.0

    def __call__(self) -> float:
        return self.now_seconds


def test_pings_regularly_and_times_out() -> None:
    clock = Clock()
    keepalive = Keepalive(60, clock)
    assert (keepalive.should_ping(), keepalive.until_ping(None)) == (False, None), "nobody waits"
    keepalive.start_waiting()
    assert keepalive.until_ping(None) == keepalive.until_ping(30) == 5
    assert keepalive.until_ping(1) == 1
    for _ in range(11):
        assert not keepalive.should_ping()
        assert not keepalive.has_timed_out()
        clock.now_seconds += 5
        assert keepalive.should_ping()
    clock.now_seconds += 4
    assert not keepalive.has_timed_out()
    clock.now_seconds += 1
    assert keepalive.has_timed_out()
    keepalive.on_packet()
    assert not keepalive.has_timed_out()


def test_silence_before_the_first_ping_does_not_count() -> None:
    clock = Clock()
    keepalive = Keepalive(60, clock)
    keepalive.start_waiting()
    clock.now_seconds += 1000
    assert keepalive.should_ping()
    assert not keepalive.has_timed_out(), "this process was suspended, so the agent's silence does not count"
    keepalive.start_waiting()
    clock.now_seconds += 54
    assert not keepalive.has_timed_out(), "another wait"


def test_an_agent_that_does_not_answer_pings_gets_none() -> None:
    clock = Clock()
    keepalive = Keepalive(math.inf, clock)
    keepalive.start_waiting()
    clock.now_seconds += 1e6
    assert not keepalive.should_ping()
    assert not keepalive.has_timed_out()
    assert keepalive.until_ping(7) == 7
    assert keepalive.until_ping(None) is None


def test_even_a_zero_timeout_leaves_time_for_an_answer() -> None:
    clock = Clock()
    keepalive = Keepalive(0, clock)
    keepalive.start_waiting()
    clock.now_seconds += MIN_TIMEOUT_SECONDS / PINGS_PER_TIMEOUT
    assert keepalive.should_ping()
    assert not keepalive.has_timed_out()
