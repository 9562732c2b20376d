"""Which step ends an iteration. Scripts are written as events: `f` is a forward, a capital letter that
optimizer's step."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laneway.client.pytorch.optimizer_steps import ITERATION, NO_BOUNDARY, OptimizerSteps

from tests.support.property_examples import examples


class Script:
    """Does what PyTorch's hooks do: begins and ends iterations."""

    def __init__(self) -> None:
        self.steps = OptimizerSteps()
        self.inside = False
        self.iterations = 0
        self.boundaries = 0

    def run(self, events: str) -> int:
        """Plays the events; returns how many iterations ended."""
        before = self.iterations
        for event in events:
            if event == "f":
                self._forward()
            else:
                self._step(event)
        return self.iterations - before

    def nested(self, outer: str, inner: str) -> None:
        self._begin_step(outer)
        for each in inner:
            self._step(each)
        self._end(self.steps.on_end(ord(outer)))

    def fail(self, optimizer: str) -> None:
        """Plays a step that raises: its end is never seen."""
        self._begin_step(optimizer)

    def _forward(self) -> None:
        if self.steps.on_forward():
            self._end(ITERATION)
        self.inside = True

    def _step(self, optimizer: str) -> None:
        self._begin_step(optimizer)
        self._end(self.steps.on_end(ord(optimizer)))

    def _begin_step(self, optimizer: str) -> None:
        if self.steps.on_begin(ord(optimizer), self.inside):
            self._end(ITERATION)
        self.inside = True

    def _end(self, outcome: int) -> None:
        if outcome != NO_BOUNDARY:
            self.inside = False
            self.boundaries += 1
            self.iterations += outcome == ITERATION


ROUNDS = {
    "one optimizer": ("fA", 1),
    "no module, so no forward": ("A", 1),
    "accumulation": ("fffA", 1),
    "GAN": ("fAfB", 2),
    "GAN whose critic trains more": ("fAfAfAfB", 4),
    "two in a row": ("fAB", 1),
    "three in a row": ("fABC", 1),
    "two in a row, twice": ("fABfAB", 2),
    "two in a row, and both again": ("fABAB", 2),
    "two in a row, without forwards": ("AB", 1),
    "three in a row, without forwards": ("ABC", 1),
}


@pytest.mark.parametrize(("events", "expected"), ROUNDS.values(), ids=ROUNDS.keys())
def test_each_round_of_a_loop_has_these_iterations(events: str, expected: int) -> None:
    script = Script()
    first = [script.run(events) for _ in range(3)]
    before = script.boundaries
    assert [script.run(events) for _ in range(5)] == [expected] * 5, f"it began with {first}"
    assert script.boundaries - before == 5 * expected


def test_steps_in_a_row_count_once_from_the_first_round_on() -> None:
    script = Script()
    assert [script.run("fABC") for _ in range(4)] == [1, 1, 1, 1]
    assert not script.inside, "the last of them ends it: waiting for data is outside"


def test_an_optimizer_that_is_followed_irregularly_is_not_waited_for() -> None:
    script = Script()
    assert script.run("fAB" + "fA" * 3 + "f") == 4
    assert script.inside
    for _ in range(4):
        script.run("A")
        assert not script.inside
        script.run("BfABf")
    assert script.iterations == 12


def test_the_outer_one_of_two_nested_steps_ends_the_iteration() -> None:
    script = Script()
    for _ in range(3):
        script.run("f")
        script.nested("Z", "A")
        assert not script.inside
    assert script.iterations == 3
    assert script.boundaries == 3


def test_a_failed_step_is_not_waited_for() -> None:
    script = Script()
    script.run("f")
    script.fail("A")
    assert script.run("fBfBfB") == 2


def test_an_address_may_be_reused() -> None:
    script = Script()
    script.run("fABfAB")
    script.steps.forget(ord("A"))
    assert script.run("fA") == 1
    assert not script.inside


@settings(max_examples=examples(400))
@example(before="BABABB", a_round="AB")
@given(before=st.text("fABC", max_size=30), a_round=st.text("fABC", min_size=1, max_size=6))
def test_any_loop_has_boundaries_and_at_most_one_iteration_a_step(before: str, a_round: str) -> None:
    script = Script()
    script.run(before)
    script.run(a_round * 4)
    steps = sum(event != "f" for event in a_round)
    for _ in range(5):
        assert (script.run(a_round * 2) > 0) == (steps > 0)
    assert script.iterations <= sum(event != "f" for event in before) + 14 * steps
