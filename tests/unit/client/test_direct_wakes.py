"""Turns that begin and end without the agent: the process before wakes this one, and this one wakes the next."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from laneway.client.runtime import Client
from laneway.client.session.direct_wakes import MAX_STRAY_SIGNALS, SIGNAL, DirectWakes
from laneway.node_agent.sessions.wake_pipe import WakePipe

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


def readable(descriptor: int, seconds: float = 0) -> bool:
    """Whether there is something to read within this time. select() knows no descriptor above 1023."""
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(1000 * seconds))


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
        os.write(self.wakes_client, SIGNAL)


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
    wait_until(lambda: not readable(lane.wakes_client), "the signal is read")
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


def test_the_signal_that_began_a_turn_begins_no_later_one(lane: Lane) -> None:
    waiting = lane.iterate()
    lane.arm(5)
    lane.signal()
    waiting.result()
    lane.confirm(5)
    lane.take_back(5)
    lane.arm(9)
    waiting = lane.iterate()
    assert not waiting.is_done()
    lane.signal()
    waiting.result()
    assert lane.agent.words[TAKEN] == 9


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
    assert not readable(lane.woken_by_client)
    lane.agent.words[SUCCESSOR] = WAKE + 1
    lane.take_back(2)
    assert readable(lane.woken_by_client, TIMEOUT_SECONDS)


@pytest.fixture
def ends() -> Iterator[WakePipe]:
    """A wake as the agent makes it, of which a test gives away copies."""
    made = WakePipe.create()
    yield made
    made.close()


def test_a_process_that_signals_without_end_is_not_heard_any_more(ends: WakePipe) -> None:
    wakes = DirectWakes()
    own = os.dup(ends.awaited)
    wakes.add(WAKE, own, signals=False)
    for _ in range(MAX_STRAY_SIGNALS):
        os.write(ends.signalled, SIGNAL)
        assert wakes.poll(0) == [own]
        wakes.reject(wakes.wake_of(own))
    os.write(ends.signalled, SIGNAL)
    assert wakes.poll(0) == []
    wakes.close()


def test_a_closed_wake_is_not_heard_although_the_other_process_signals_it(ends: WakePipe) -> None:
    wakes = DirectWakes()
    wakes.add(WAKE, os.dup(ends.awaited), signals=False)
    wakes.remove(WAKE)
    os.write(ends.signalled, SIGNAL)
    assert wakes.poll(0) == []
    wakes.close()


def test_a_forked_child_that_closes_its_wakes_leaves_those_of_its_parent(ends: WakePipe) -> None:
    wakes = DirectWakes()
    own = os.dup(ends.awaited)
    wakes.add(WAKE, own, signals=False)

    def close() -> bool:
        wakes.close()
        return True

    assert in_forked_child(close)
    os.write(ends.signalled, SIGNAL)
    assert wakes.poll(0) == [own]
    wakes.close()


def test_signals_that_came_together_count_once(ends: WakePipe) -> None:
    wakes = DirectWakes()
    own = os.dup(ends.awaited)
    wakes.add(WAKE, own, signals=False)
    for _ in range(100):
        os.write(ends.signalled, SIGNAL)
    assert wakes.poll(0) == [own]
    wakes.clear(own)
    assert wakes.poll(0) == []
    wakes.close()


def test_a_process_that_fills_a_wake_and_lets_it_block_holds_up_no_other(ends: WakePipe) -> None:
    """It is the successor of a holder, and keeps that from its release."""
    wakes = DirectWakes()
    wakes.add(WAKE, os.dup(ends.signalled), signals=True)
    with suppress(BlockingIOError):
        while True:
            os.write(ends.awaited, bytes(4096))
    os.set_blocking(ends.awaited, True)
    Background(lambda: wakes.signal(WAKE)).result()
    wakes.close()


def test_a_process_that_reads_its_own_signal_and_lets_it_block_holds_up_no_other(ends: WakePipe) -> None:
    wakes = DirectWakes()
    wakes.add(WAKE, os.dup(ends.awaited), signals=False)
    os.set_blocking(ends.signalled, True)
    os.write(ends.signalled, SIGNAL)
    Background(wakes.discard).result()
    with pytest.raises(BlockingIOError):
        os.read(ends.awaited, 8)
    wakes.close()


def test_a_signal_to_a_process_that_has_ended_does_nothing() -> None:
    ends = WakePipe.create()
    wakes = DirectWakes()
    wakes.add(WAKE, ends.signalled, signals=True)
    os.close(ends.awaited)
    with default_of(signal.SIGPIPE):  # as some scripts set it
        wakes.signal(WAKE)
    wakes.close()


@contextmanager
def default_of(number: signal.Signals) -> Iterator[None]:
    """Let a signal have its default effect."""
    before = signal.signal(number, signal.SIG_DFL)
    yield
    signal.signal(number, before)
