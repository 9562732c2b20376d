"""The event loop: order, other threads, and callbacks that fail."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest
from laneway.node_agent.clock import SystemClock
from laneway.node_agent.event_loop import EventLoop


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    loop = EventLoop(SystemClock())
    yield loop
    loop.close()


def in_thread(loop: EventLoop) -> threading.Thread:
    thread = threading.Thread(target=loop.run)
    thread.start()
    return thread


def test_timers_fire_in_order_and_cancelled_ones_do_not(loop: EventLoop) -> None:
    fired: list[str] = []
    now = SystemClock().monotonic()
    loop.call_at(now + 0.02, lambda: fired.append("second"))
    loop.call_at(now + 0.01, lambda: fired.append("first"))
    loop.call_at(now + 0.015, lambda: fired.append("never")).cancel()
    loop.call_at(now + 0.03, loop.stop)
    loop.run()
    assert fired == ["first", "second"]


def test_a_failing_callback_is_logged_and_the_loop_continues(
    loop: EventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    now = SystemClock().monotonic()
    loop.call_at(now, lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    loop.call_at(now + 0.01, loop.stop)
    loop.run()
    assert "ZeroDivisionError" in caplog.text


def test_questions_of_other_threads_are_answered_or_raise(loop: EventLoop) -> None:
    thread = in_thread(loop)
    assert loop.ask(threading.get_ident) == thread.ident
    with pytest.raises(ZeroDivisionError):
        loop.ask(lambda: 1 // 0)
    loop.stop()
    thread.join(60)
    with pytest.raises(TimeoutError):
        loop.ask(lambda: 1, timeout_seconds=0.01)


def test_a_loop_that_was_stopped_before_it_ran_does_not_run(loop: EventLoop) -> None:
    loop.stop()
    loop.run()


def test_a_reader_that_is_removed_is_not_called(loop: EventLoop) -> None:
    reading, writing = os.pipe()
    seen: list[bytes] = []

    def read() -> None:
        seen.append(os.read(reading, 1))
        loop.remove_reader(reading)
        loop.call_at(SystemClock().monotonic() + 0.01, loop.stop)

    loop.add_reader(reading, read)
    os.write(writing, b"ab")
    loop.run()
    os.close(reading)
    os.close(writing)
    assert seen == [b"a"]
