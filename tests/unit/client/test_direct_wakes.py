"""Turns that begin and end without the agent: the process before wakes this one, and this one wakes the next."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from laneway.client.runtime import Client
from laneway.client.session.direct_wakes import MAX_STRAY_SIGNALS, DirectWakes

from tests.unit.client.conftest import Background
from tests.unit.client.fake_agent import (
    ARMED_TURN,
    ARMED_WAKE,
    SUCCESSOR,
    TAKEN,
    TIMEOUT_SECONDS,
    TURN,
    YIELD,
    Connection,
    FakeAgent,
)
from tests.unit.client.forking import in_forked_child
from tests.unit.client.waiting import wait_until

WAKE = 7


class Lane:
    """A client that has released turn 1 and has a wake of each kind."""

    def __init__(self, client: Client, agent: FakeAgent) -> None:
        self.client = client
        starting = Background(lambda: client.start("torch 2.6.0", "cpu"))
        self.agent: Connection = agent.connection()
        self.agent.expect("request")
        self.agent.grant()
        starting.result()
        self.wakes_client = self.agent.share_wake(WAKE, signals=False)
        self.woken_by_client = self.agent.share_wake(WAKE + 1, signals=True)
        self.take_back(1)

    def take_back(self, turn: int) -> dict[str, Any]:
        """Asks for the turn, and returns its release after the agent has read it."""
        self.agent.granted = turn
        self.agent.ask_back()
        release = self.agent.expect("release")
        assert release["turn"] == turn
        self.agent.words[TURN] = self.agent.words[YIELD] = 0
        return release

    def iterate(self) -> Background:
        """Begins an iteration in another thread, which waits for its turn."""

        def run() -> None:
            self.client.guard.begin()
            self.client.guard.end()

        waiting = Background(run)
        self.agent.expect("request")
        return waiting

    def arm(self, turn: int, wake: int = WAKE) -> None:
        self.agent.words[ARMED_WAKE] = wake
        self.agent.words[ARMED_TURN] = turn

    def confirm(self, turn: int) -> None:
        self.agent.words[TURN] = turn
        self.agent.words[ARMED_TURN] = 0

    def signal(self) -> None:
        os.eventfd_write(self.wakes_client, 1)


@pytest.fixture
def lane(make_client: Callable[[], Client], agent: FakeAgent) -> Iterator[Lane]:
    made = Lane(make_client(), agent)
    yield made
    for descriptor in (made.wakes_client, made.woken_by_client):
        os.close(descriptor)


def test_an_armed_process_begins_when_it_is_woken(lane: Lane) -> None:
    waiting = lane.iterate()
    lane.arm(5)
    lane.signal()
    waiting.result()
    assert lane.agent.words[TAKEN] == 5, "the agent sees that the turn has begun"
    lane.agent.expect_nothing()


def test_its_turn_lasts_until_the_agent_wants_it_back(lane: Lane) -> None:
    waiting = lane.iterate()
    lane.arm(5)
    lane.signal()
    waiting.result()
    lane.confirm(5)
    lane.client.guard.begin()
    lane.client.guard.end()
    lane.agent.expect_nothing()
    assert lane.take_back(5)["iterations"] == 2
    assert lane.agent.words[TAKEN] == 0


@pytest.mark.parametrize(
    ("turn", "wake"), [(0, 0), (5, WAKE + 1)], ids=["nobody is armed", "another wake announces it"]
)
def test_a_signal_that_announces_nothing_begins_nothing(lane: Lane, turn: int, wake: int) -> None:
    waiting = lane.iterate()
    lane.arm(turn, wake)
    lane.signal()
    wait_until(lambda: not select.select([lane.wakes_client], [], [], 0)[0], "the signal is read")
    assert not waiting.is_done()
    assert lane.agent.words[TAKEN] == 0
    lane.agent.grant()
    waiting.result()


def test_a_signal_of_an_earlier_turn_begins_no_later_one(lane: Lane) -> None:
    waiting = lane.iterate()
    lane.agent.grant()
    waiting.result()
    lane.signal()
    lane.take_back(2)
    lane.arm(9)
    waiting = lane.iterate()
    assert not waiting.is_done()
    lane.signal()
    waiting.result()


def test_a_turn_that_the_agent_withdraws_is_released_at_the_boundary(lane: Lane) -> None:
    waiting = lane.iterate()
    lane.arm(5)
    lane.signal()
    waiting.result()
    lane.arm(0, 0)
    again = Background(lambda: (lane.client.guard.begin(), lane.client.guard.end()))
    assert lane.agent.expect("release")["turn"] == 5
    lane.agent.expect("request")
    assert not again.is_done()
    lane.agent.grant()
    again.result()


def test_a_grant_that_crosses_the_signal_counts_once(lane: Lane) -> None:
    waiting = lane.iterate()
    lane.arm(5)
    lane.signal()
    waiting.result()
    lane.confirm(5)
    lane.agent.send("grant", turn=5)
    lane.take_back(5)
    lane.agent.expect_nothing()


def test_a_holder_wakes_its_successor_when_it_releases(lane: Lane) -> None:
    waiting = lane.iterate()
    lane.agent.grant()
    waiting.result()
    assert not select.select([lane.woken_by_client], [], [], 0)[0]
    lane.agent.words[SUCCESSOR] = WAKE + 1
    lane.take_back(2)
    assert select.select([lane.woken_by_client], [], [], TIMEOUT_SECONDS)[0]


def test_a_process_that_signals_without_end_is_not_heard_any_more() -> None:
    wakes = DirectWakes()
    descriptor = os.eventfd(0, os.EFD_NONBLOCK)
    own = os.dup(descriptor)
    wakes.add(WAKE, own, signals=False)
    for _ in range(MAX_STRAY_SIGNALS):
        os.eventfd_write(descriptor, 1)
        assert wakes.poll(0) == [own]
        wakes.reject(wakes.wake_of(own), own)
    os.eventfd_write(descriptor, 1)
    assert wakes.poll(0) == []
    os.close(descriptor)
    wakes.close()


def test_a_signal_is_an_event_once_and_is_read_with_the_release() -> None:
    wakes = DirectWakes()
    descriptor = os.eventfd(0, os.EFD_NONBLOCK)
    own = os.dup(descriptor)
    wakes.add(WAKE, own, signals=False)
    for _ in range(3):
        os.eventfd_write(descriptor, 1)
        assert wakes.poll(0) == [own]
        assert wakes.poll(0) == [], "it is one event"
        wakes.accept(own)
        wakes.discard()
        assert not select.select([descriptor], [], [], 0)[0], "nothing accumulates"
    os.close(descriptor)
    wakes.close()


def test_a_closed_wake_is_not_heard_although_the_other_process_signals_it() -> None:
    wakes = DirectWakes()
    descriptor = os.eventfd(0, os.EFD_NONBLOCK)
    wakes.add(WAKE, os.dup(descriptor), signals=False)
    wakes.remove(WAKE)
    os.eventfd_write(descriptor, 1)
    assert wakes.poll(0) == []
    os.close(descriptor)
    wakes.close()


def test_a_forked_child_that_closes_its_wakes_leaves_those_of_its_parent() -> None:
    wakes = DirectWakes()
    descriptor = os.eventfd(0, os.EFD_NONBLOCK)
    own = os.dup(descriptor)
    wakes.add(WAKE, own, signals=False)

    def close() -> bool:
        wakes.close()
        return True

    assert in_forked_child(close)
    os.eventfd_write(descriptor, 1)
    assert wakes.poll(0) == [own]
    os.close(descriptor)
    wakes.close()
