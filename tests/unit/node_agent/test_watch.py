"""When a container that breaks a limit is warned, told to end and killed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.node_agent.enforcement.watch import Deed, Rules, Sight, Stage, Watch, step

RULES = Rules(grace_seconds=30, kill_seconds=10, announce_seconds=1, longest_step_seconds=10)


@dataclass
class Line:
    """A container that is looked at every so often."""

    rules: Rules = RULES
    watch: Watch = field(default_factory=Watch)
    now: float = 1000.0

    def look(self, breach: bool | None, after: float = 2.0, living: bool = True) -> Deed:
        self.now += after
        living = living and self.watch.stage in (Stage.TERMINATING, Stage.KILLING)
        self.watch, deed = step(self.watch, Sight(self.now, breach, living), self.rules)
        return deed

    def looks(self, breach: bool | None, times: int) -> list[Deed]:
        return [deed for _ in range(times) if (deed := self.look(breach)) is not Deed.NOTHING]


def test_who_goes_on_is_warned_announced_told_to_end_and_killed() -> None:
    line = Line()
    assert line.look(True) is Deed.WARN
    assert line.looks(True, 14) == []
    assert line.look(True) is Deed.ANNOUNCE, "30 s over"
    assert line.look(None, after=0.25) is Deed.NOTHING, "the announcement is to be read first"
    assert line.look(None) is Deed.TERMINATE
    assert line.looks(True, 4) == []
    assert line.look(True) is Deed.KILL
    assert line.look(True) is Deed.KILL, "until it is gone"
    assert line.look(True, living=False) is Deed.WITHDRAW
    assert line.watch == Watch()


def test_who_keeps_to_the_limit_again_is_let_be() -> None:
    line = Line()
    line.look(True)
    assert line.looks(True, 5) == []
    assert line.looks(False, 6) == [Deed.WITHDRAW]
    assert line.watch == Watch()


def test_who_keeps_to_the_limit_now_and_then_only_is_stopped_later() -> None:
    line = Line()
    line.look(True)
    deeds: list[Deed] = []
    while Deed.TERMINATE not in deeds and line.now < 2000:
        deeds += line.looks(True, 3) + line.looks(False, 1)
    assert Deed.TERMINATE in deeds


def test_who_keeps_to_the_limit_at_the_last_moment_has_no_new_grace() -> None:
    line = Line()
    line.look(True)
    line.looks(True, 15)
    assert line.watch.stage is Stage.ANNOUNCED
    assert line.look(False, after=0.5) is Deed.WARN
    assert line.look(True, after=0.5) is Deed.ANNOUNCE


def test_who_ends_when_told_is_not_killed_and_the_next_one_has_its_own_grace() -> None:
    line = Line()
    line.look(True)
    line.looks(True, 15)
    assert line.look(True) is Deed.TERMINATE
    assert line.look(True, living=False) is Deed.WITHDRAW
    assert line.look(True) is Deed.WARN
    assert line.looks(True, 14) == []


def test_where_it_is_only_to_warn_nobody_is_stopped() -> None:
    line = Line(Rules(evicts=False, grace_seconds=0, kill_seconds=0))
    assert line.look(True) is Deed.WARN
    assert line.looks(True, 100) == []
    assert line.looks(False, 1) == [Deed.WITHDRAW]


def test_a_grace_of_nothing_still_takes_two_looks() -> None:
    line = Line(Rules(grace_seconds=0, kill_seconds=0))
    assert [line.look(True) for _ in range(4)] == [Deed.WARN, Deed.ANNOUNCE, Deed.TERMINATE, Deed.KILL]


def test_what_nobody_looked_at_is_not_held_against_anybody() -> None:
    line = Line()
    line.look(True)
    assert line.looks(None, 1000) == []
    assert line.look(True) is Deed.NOTHING
    assert line.watch.spent_seconds == RULES.longest_step_seconds


Looks = st.lists(
    st.tuples(st.sampled_from([True, False, None]), st.floats(0.1, 30), st.booleans(), st.integers(1, 20)),
    max_size=25,
)
ALL_RULES = st.builds(
    Rules,
    evicts=st.booleans(),
    grace_seconds=st.sampled_from([0.0, 5.0, 30.0, 100.0]),
    kill_seconds=st.sampled_from([0.0, 5.0, 30.0]),
)


def deeds_of(
    line: Line, looks: list[tuple[bool | None, float, bool, int]]
) -> Iterator[tuple[Deed, bool | None]]:
    for breach, after, living, times in looks:
        for _ in range(times):
            yield line.look(breach, after, living), breach


@given(ALL_RULES, Looks)
def test_nobody_is_stopped_without_a_warning_and_its_grace(
    rules: Rules, looks: list[tuple[bool | None, float, bool, int]]
) -> None:
    line = Line(rules)
    over_seconds, warned, announced_at, terminated_at, told_at = 0.0, False, None, None, line.now
    for deed, breach in deeds_of(line, looks):
        if breach is not None:
            over_seconds += line.now - told_at if breach else 0.0
            told_at = line.now
        if deed is Deed.WARN:
            warned = True
        if deed is Deed.ANNOUNCE:
            assert rules.evicts
            assert warned
            assert over_seconds >= rules.grace_seconds - 1e-6  # sums of other order
            assert breach is True
            announced_at = line.now
        if deed is Deed.TERMINATE:
            assert announced_at is not None
            assert line.now - announced_at >= rules.announce_seconds
            assert breach is not False
            terminated_at = line.now
        if deed is Deed.KILL:
            assert terminated_at is not None
            assert line.now - terminated_at >= rules.kill_seconds
        if deed is Deed.WITHDRAW:
            warned, announced_at, terminated_at, over_seconds = False, None, None, 0.0


@given(ALL_RULES, st.floats(0.5, 8), st.integers(0, 50))
def test_who_is_over_at_every_look_is_stopped_in_time(rules: Rules, every: float, before: int) -> None:
    line = Line(rules)
    assert line.looks(False, before) == []
    until = line.now + rules.grace_seconds + rules.announce_seconds + 4 * every
    deeds: list[Deed] = []
    while line.now < until:
        deeds.append(line.look(True, every))
    assert (Deed.TERMINATE in deeds) == rules.evicts


@pytest.mark.parametrize("stage", [Stage.TERMINATING, Stage.KILLING])
@given(breach=st.sampled_from([True, False, None]))
def test_an_end_that_has_begun_is_not_taken_back_by_freeing_memory(stage: Stage, breach: bool | None) -> None:
    line = Line(watch=Watch(stage, since_seconds=1000.0))
    assert line.look(breach, RULES.kill_seconds) is Deed.KILL
