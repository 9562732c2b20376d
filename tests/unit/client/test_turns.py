"""How a process takes turns: what it sends to the agent, and when it runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from laneway.client.runtime import Client
from laneway.client.session.session import Session

from tests.unit.client.conftest import Background
from tests.unit.client.fake_agent import (
    BUSY_NS,
    INSIDE,
    ITERATIONS,
    TIMEOUT_SECONDS,
    Connection,
    FakeAgent,
)


class Running:
    """A client whose first turn was granted, and the agent's end of its session."""

    def __init__(self, client: Client, agent: FakeAgent) -> None:
        starting = Background(lambda: client.start("torch 2.6.0", "cpu"))
        self.client = client
        self.guard = client.guard
        self.agent: Connection = agent.connection()
        self.agent.expect("request")
        assert not starting.is_done()
        self.agent.grant()
        starting.result()

    def iterate(self, times: int = 1) -> None:
        for _ in range(times):
            self.guard.begin()
            self.guard.end()


def slow_release(running: Running) -> tuple[threading.Event, threading.Event]:
    """Makes the device work on at a release: returns what is set when it begins to, and what a test sets to end it."""
    settling, settled = threading.Event(), threading.Event()

    def settle() -> None:
        settling.set()
        settled.wait(TIMEOUT_SECONDS)

    session = running.guard.session
    assert isinstance(session, Session)
    session.before_release = settle
    return settling, settled


def wait_until_handled(running: Running) -> None:
    """Waits until the client has handled all messages so far, which are handled in their order."""
    handled = threading.Event()
    running.guard.session.on_order = lambda _: handled.set()
    running.agent.send("offload")
    assert handled.wait(TIMEOUT_SECONDS)


@pytest.fixture
def running(make_client: Callable[[], Client], agent: FakeAgent) -> Running:
    return Running(make_client(), agent)


def test_hello_describes_the_process(running: Running) -> None:
    hello = running.agent.hello
    assert hello["version"] == 1
    assert hello["framework"] == "torch 2.6.0"
    assert hello["device"] == "cpu"
    assert hello["gpu"] is None
    assert hello["pid"] > 0


def test_keeps_its_turn_without_messages_while_nobody_waits(running: Running) -> None:
    running.iterate(1000)
    running.agent.expect_nothing()
    assert running.agent.words[ITERATIONS] == 1000
    assert running.agent.words[BUSY_NS] > 0
    assert running.agent.words[INSIDE] == 0


def test_an_evaluation_needs_a_turn_and_does_not_count(running: Running) -> None:
    running.guard.begin()
    assert running.agent.words[INSIDE] == 1
    running.guard.end(trained=False)
    assert running.agent.words[ITERATIONS] == 0


def test_releases_at_the_boundary_when_asked_during_an_iteration(running: Running) -> None:
    running.iterate(4)
    running.guard.begin()
    running.agent.ask_back()
    running.agent.expect_nothing()
    running.guard.end()
    release = running.agent.expect("release")
    assert release["turn"] == 1
    assert release["iterations"] == 5
    assert release["gpu_seconds"] == pytest.approx(running.agent.words[BUSY_NS] / 1e9)


def test_releases_at_the_boundary_before_the_message_arrives(running: Running) -> None:
    running.guard.begin()
    running.agent.ask_back(page_only=True)
    running.guard.end()
    assert running.agent.expect("release")["turn"] == 1


def test_releases_at_once_when_asked_between_iterations(running: Running) -> None:
    running.iterate(2)
    running.agent.ask_back()
    assert running.agent.expect("release")["iterations"] == 2


def test_requests_again_before_the_next_iteration_and_counts_each_turn_separately(running: Running) -> None:
    running.iterate(2)
    running.agent.ask_back()
    running.agent.expect("release")
    again = Background(running.iterate)
    running.agent.expect("request")
    assert not again.is_done()
    running.agent.grant()
    again.result()
    running.agent.ask_back()
    release = running.agent.expect("release")
    assert (release["turn"], release["iterations"]) == (2, 1)


def test_a_turn_revoked_between_iterations_is_released_and_requested_again(running: Running) -> None:
    running.iterate()
    running.agent.revoke()
    assert running.agent.expect("release")["turn"] == 1
    again = Background(running.iterate)
    running.agent.expect("request")
    running.agent.grant()
    again.result()


def test_an_iteration_continues_after_its_turn_is_revoked_and_releases_it_at_its_end(
    running: Running,
) -> None:
    freed: list[None] = []
    running.guard.session.before_release = lambda: freed.append(None)
    running.guard.begin()
    running.agent.revoke()
    running.agent.expect_nothing()
    running.guard.end()
    assert running.agent.expect("release")["turn"] == 1
    assert freed, "its memory is free before the agent hears of it"
    running.agent.expect_nothing()
    again = Background(running.iterate)
    running.agent.expect("request")
    assert not again.is_done()
    running.agent.grant()
    again.result()


def test_pauses_at_once_between_iterations(running: Running) -> None:
    running.agent.pause()
    assert running.agent.expect("release")["turn"] == 1
    running.agent.expect("paused")


def test_pauses_at_the_boundary_when_told_during_an_iteration(running: Running) -> None:
    running.guard.begin()
    running.agent.pause()
    running.agent.expect_nothing()
    running.guard.end()
    running.agent.expect("release")
    running.agent.expect("paused")


def test_pauses_at_the_boundary_of_an_iteration_whose_turn_was_revoked(running: Running) -> None:
    running.guard.begin()
    running.agent.revoke()
    running.agent.pause()
    running.agent.expect_nothing()
    running.guard.end()
    running.agent.expect("release")
    running.agent.expect("paused")
    running.agent.expect_nothing()


def test_a_paused_job_waits_until_it_is_resumed_and_granted_a_turn(running: Running) -> None:
    running.agent.pause()
    running.agent.expect("release")
    running.agent.expect("paused")
    again = Background(running.iterate)
    running.agent.expect("request")
    running.agent.resume()
    assert not again.is_done()
    running.agent.grant()
    again.result()
    running.agent.expect_nothing()


def test_a_pause_while_it_waits_for_a_turn_is_answered_at_once(running: Running) -> None:
    running.agent.ask_back()
    running.agent.expect("release")
    again = Background(running.iterate)
    running.agent.expect("request")
    running.agent.pause()
    running.agent.expect("paused")
    running.agent.resume()
    running.agent.grant()
    again.result()


@pytest.mark.parametrize("revoked", [False, True], ids=["asked back", "revoked"])
def test_a_pause_that_comes_during_a_release_is_answered_after_it(running: Running, revoked: bool) -> None:
    """The device still works for the turn, and the agent counts the memory of a paused process as free."""
    settling, settled = slow_release(running)
    running.guard.begin()
    if revoked:
        running.agent.revoke()
    else:
        running.agent.ask_back(page_only=True)
    ending = Background(running.guard.end)
    assert settling.wait(TIMEOUT_SECONDS)
    running.agent.pause()
    wait_until_handled(running)
    running.agent.expect_nothing()
    settled.set()
    ending.result()
    running.agent.expect("release")
    running.agent.expect("paused")


def test_a_turn_that_its_job_was_granted_twice_is_released_after_a_revocation(running: Running) -> None:
    """While another process of its container holds the job's turn, a process that has released it is granted the same one again."""
    running.agent.ask_back()
    assert running.agent.expect("release")["turn"] == 1
    beginning = Background(running.guard.begin)
    running.agent.expect("request")
    running.agent.granted -= 1
    assert running.agent.grant() == 1
    beginning.result()
    running.agent.revoke()
    running.agent.pause()
    wait_until_handled(running)
    running.guard.end()
    assert running.agent.expect("release")["turn"] == 1
    running.agent.expect("paused")


def test_a_release_that_the_script_broke_off_leaves_no_pause_unanswered(running: Running) -> None:
    """A signal's handler may raise within the release, and the script may go on."""

    def break_off() -> None:
        raise KeyboardInterrupt

    session = running.guard.session
    assert isinstance(session, Session)
    session.before_release = break_off
    running.guard.begin()
    running.agent.ask_back(page_only=True)
    with pytest.raises(KeyboardInterrupt):
        running.guard.end()
    session.before_release = lambda: None
    running.agent.revoke()
    again = Background(running.iterate)
    running.agent.expect("request")
    running.agent.grant()
    again.result()
    running.agent.pause()
    running.agent.expect("release")
    running.agent.expect("paused")


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads switch every few microseconds instead of every five milliseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_threads")
def test_no_turn_is_lost_whenever_it_is_requested_back(running: Running) -> None:
    """The agent requests the turn back without pause while the client iterates without pause: each turn has
    exactly one release."""
    enough = threading.Event()

    def train() -> None:
        while not enough.is_set():
            running.iterate()

    training = Background(train)
    iterations = 0
    for turn in range(1, 1001):
        running.agent.ask_back()
        release = running.agent.expect("release")
        assert release["turn"] == turn
        iterations += release["iterations"]
        running.agent.expect("request")
        if turn == 1000:
            enough.set()
        assert running.agent.grant() == turn + 1
    training.result()
    running.client.finish()
    iterations += running.agent.expect("release")["iterations"]
    assert iterations == running.agent.words[ITERATIONS]


@pytest.mark.usefixtures("eager_threads")
def test_a_client_that_returns_at_once_requests_the_next_turn_with_the_release(
    make_client: Callable[[], Client], agent: FakeAgent
) -> None:
    """As above; a release that requests the next turn is followed by no request, any other release by one."""
    agent.release_again = True
    running = Running(make_client(), agent)
    enough = threading.Event()

    def train() -> None:
        while not enough.is_set():
            running.iterate()

    training = Background(train)
    asked_with_release = 0
    for turn in range(1, 501):
        running.agent.ask_back()
        release = running.agent.expect("release")
        assert release["turn"] == turn
        if release.get("again"):
            asked_with_release += 1
        else:
            running.agent.expect("request")
        if turn == 500:
            enough.set()
        running.agent.grant()
    training.result()
    assert asked_with_release > 0
    running.client.finish()
    running.agent.expect("release")
    running.agent.expect("goodbye")


def test_a_request_does_not_overtake_a_slow_release(running: Running) -> None:
    """Otherwise the agent would answer the request with the turn that is being released."""
    settling, settled = slow_release(running)
    running.agent.ask_back()
    assert settling.wait(TIMEOUT_SECONDS)
    again = Background(running.iterate)
    running.agent.expect_nothing()
    settled.set()
    running.agent.expect("release")
    running.agent.expect("request")
    assert not again.is_done()
    running.agent.grant()
    again.result()


def test_a_turn_granted_twice_is_not_released_during_an_iteration(running: Running) -> None:
    """The agent answers a request from the turn's holder with that turn again."""
    session = running.guard.session
    assert isinstance(session, Session)
    acted = threading.Event()
    session.on_order = lambda _: acted.set()
    running.guard.begin()
    running.agent.send("grant", turn=running.agent.granted)
    running.agent.ask_back()
    running.agent.send("offload")  # the last of three messages: once it is handled, so are the others
    assert acted.wait(TIMEOUT_SECONDS)
    running.agent.expect_nothing()
    running.guard.end()
    assert running.agent.expect("release")["iterations"] == 1
    running.agent.expect_nothing()


def test_a_second_thread_shares_the_iteration_of_the_first(running: Running) -> None:
    running.guard.begin()
    second = Background(running.guard.begin)
    second.result()
    running.guard.end()
    assert running.agent.words[ITERATIONS] == 1


def test_says_goodbye_and_returns_its_turn(running: Running) -> None:
    running.iterate(3)
    running.client.finish()
    assert running.agent.expect("release")["iterations"] == 3
    running.agent.expect("goodbye")
    assert running.agent.ended.wait(60)
