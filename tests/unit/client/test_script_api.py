"""Iterations that a script marks itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from laneway.client import runtime, script_api
from laneway.client.memory.meter import NoMeter
from laneway.client.runtime import Client

from tests.unit.client.conftest import Background
from tests.unit.client.fake_agent import INSIDE, ITERATIONS, Connection, FakeAgent


@pytest.fixture
def connection(
    make_client: Callable[[], Client], agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> Connection:
    """The agent's end of the process's session, which the first iteration opened."""
    monkeypatch.setattr(runtime, "_client", make_client())

    def first() -> None:
        with script_api.iteration():
            pass

    training = Background(first)
    connection = agent.connection()
    connection.expect("request")
    connection.grant()
    training.result()
    return connection


def test_a_block_is_an_iteration(connection: Connection) -> None:
    with script_api.iteration():
        assert connection.words[INSIDE] == 1
    assert connection.words[INSIDE] == 0
    assert connection.words[ITERATIONS] == 2


class OneMebibyte(NoMeter):
    """Measures the same each time."""

    def end(self) -> tuple[int, int]:
        return 1 << 20, 1 << 20


def test_the_remaining_time_is_part_of_the_profile(connection: Connection) -> None:
    runtime.client().guard.meter = OneMebibyte()
    script_api.expect_iterations(10)
    for _ in range(3):
        with script_api.iteration():
            pass
    profile = connection.expect("profile")
    assert profile["remaining_seconds"] == pytest.approx(7 * profile["iteration_seconds"])
    assert profile["iteration_seconds_spread"] >= 0


def test_a_negative_count_is_rejected() -> None:
    with pytest.raises(
        ValueError, match=r"expect_iterations\(-1\): the number of remaining iterations must be 0 or more"
    ):
        script_api.expect_iterations(-1)


def test_the_outermost_block_counts(connection: Connection) -> None:
    with script_api.iteration(), script_api.iteration():
        pass
    assert connection.words[ITERATIONS] == 2


def test_a_block_that_raises_ends_its_iteration(connection: Connection) -> None:
    with pytest.raises(ValueError, match="loss is NaN"), script_api.iteration():
        raise ValueError("loss is NaN")
    assert connection.words[INSIDE] == 0


class Broken(NoMeter):
    """Fails at both ends of an iteration, with an internal error or with one meant for the script."""

    def __init__(self, begin: type[Exception] | None, end: type[Exception] | None) -> None:
        self._begin = begin
        self._end = end

    def begin(self) -> None:
        if self._begin:
            raise self._begin("begin")

    def end(self) -> None:
        if self._end:
            raise self._end("end")


class OutOfMemoryError(RuntimeError):
    """Has the name of PyTorch's class."""


@pytest.mark.parametrize("meter", [Broken(KeyError, None), Broken(None, KeyError)], ids=["begin", "end"])
def test_an_internal_error_does_not_reach_the_script(connection: Connection, meter: Broken) -> None:
    runtime.client().guard.meter = meter
    done = []
    for number in script_api.iterations(range(3)):
        done.append(number)
    assert done == [0, 1, 2]
    assert connection.ended.wait(60), "the others need not wait for a client that cannot go on"


def test_an_error_meant_for_the_script_reaches_it(connection: Connection) -> None:
    runtime.client().guard.meter = Broken(OutOfMemoryError, None)
    with pytest.raises(OutOfMemoryError), script_api.iteration():
        raise AssertionError("the block was entered")
    runtime.client().guard.meter = NoMeter()
    with script_api.iteration():
        assert connection.words[INSIDE] == 1


def test_items_are_fetched_outside_and_used_inside(connection: Connection) -> None:
    inside_while_fetching = []

    def batches() -> Iterator[int]:
        for number in range(3):
            inside_while_fetching.append(connection.words[INSIDE])
            yield number

    inside_while_used = [connection.words[INSIDE] for _ in script_api.iterations(batches())]
    assert inside_while_fetching == [0, 0, 0]
    assert inside_while_used == [1, 1, 1]
    assert connection.words[ITERATIONS] == 4


def test_leaving_the_loop_ends_the_iteration(connection: Connection) -> None:
    items = script_api.iterations(range(10))
    for _ in items:
        break
    items.close()  # type: ignore[attr-defined] # CPython does so when nobody holds the generator any more
    assert connection.words[INSIDE] == 0


def test_the_framework_is_named(connection: Connection) -> None:
    assert connection.hello["framework"] == ""


def test_leaving_a_block_in_a_forked_child_is_harmless(connection: Connection) -> None:
    guard = script_api.client().guard
    with script_api.iteration():
        guard.open_blocks = 0  # as in the forked child, whose guard is new
        guard.end()
    with script_api.iteration():
        assert connection.words[INSIDE] == 1
    assert connection.words[INSIDE] == 0
