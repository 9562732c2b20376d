"""When a container that violates a limit is warned, terminated and killed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.node_agent.enforcement.escalation import Action, Escalation, Observation, Rules, Stage, step

RULES = Rules(grace_seconds=30, kill_seconds=10, announce_seconds=1, longest_step_seconds=10)


@dataclass
class ClientChannel:
    """A container that is looked at every so often."""

    rules: Rules = RULES
    watch: Escalation = field(default_factory=Escalation)
    now: float = 1000.0

    def look(
        self, breach: bool | None, after: float = 2.0, living: bool = True, urgent: bool = False
    ) -> Action:
        self.now += after
        living = living and self.watch.stage in (Stage.TERMINATING, Stage.KILLING)
        self.watch, deed = step(self.watch, Observation(self.now, breach, living, urgent), self.rules)
        return deed

    def looks(self, breach: bool | None, times: int) -> list[Action]:
        return [deed for _ in range(times) if (deed := self.look(breach)) is not Action.NOTHING]


def test_a_lasting_violation_is_warned_announced_terminated_and_killed() -> None:
    line = ClientChannel()
    assert line.look(True) is Action.WARN
    assert line.looks(True, 14) == []
    assert line.look(True) is Action.ANNOUNCE, "30 s over"
    assert line.look(None, after=0.25) is Action.NOTHING, "the announcement is to be read first"
    assert line.look(None) is Action.TERMINATE
    assert line.looks(True, 4) == []
    assert line.look(True) is Action.KILL
    assert line.look(True) is Action.KILL, "until it is gone"
    assert line.look(True, living=False) is Action.WITHDRAW
    assert line.watch.stage is Stage.WARNED


def test_compliance_restores_the_grace_slowly_and_withdraws_the_warning() -> None:
    line = ClientChannel()
    line.look(True)
    assert line.looks(True, 5) == []
    assert line.looks(False, 99) == [], "10 s over are forgiven after 200 s"
    assert line.looks(False, 2) == [Action.WITHDRAW]
    assert line.watch.stage is Stage.COMPLIANT
    assert line.watch.spent_seconds == 0


@pytest.mark.parametrize(("over", "within"), [(3, 1), (14, 14), (1, 1), (1, 18)])
def test_intermittent_violation_is_stopped_later(over: int, within: int) -> None:
    line = ClientChannel()
    line.look(False)
    deeds: list[Action] = []
    while Action.TERMINATE not in deeds and line.now < 20_000:
        deeds += line.looks(True, over) + line.looks(False, within)
    assert Action.TERMINATE in deeds


def test_compliance_after_the_announcement_stops_nothing() -> None:
    line = ClientChannel()
    line.look(True)
    line.looks(True, 15)
    assert line.watch.stage is Stage.ANNOUNCED
    assert line.look(False, after=0.5) is Action.NOTHING
    assert line.look(False, after=0.5) is Action.TERMINATE


def test_a_process_that_ends_on_sigterm_is_not_killed_and_its_successor_has_no_grace() -> None:
    line = ClientChannel()
    line.look(True)
    line.looks(True, 15)
    assert line.look(True) is Action.TERMINATE
    assert line.look(True, living=False) is Action.WITHDRAW
    assert line.look(True) is Action.ANNOUNCE


def test_later_stops_in_a_container_kill_at_once_and_at_last_all_of_its_processes() -> None:
    line = ClientChannel()
    line.look(True)
    line.looks(True, 15)
    assert line.look(True) is Action.TERMINATE
    assert not line.watch.stops_container(RULES)
    for stops_container in (False, True, True):
        assert line.look(True, living=False) is Action.WITHDRAW
        assert line.looks(True, 2) == [Action.ANNOUNCE, Action.KILL], "without SIGTERM"
        assert line.watch.stops_container(RULES) is stops_container


def test_a_container_that_has_its_whole_grace_again_is_sent_sigterm_first() -> None:
    line = ClientChannel()
    for _ in range(3):
        line.look(True)
        assert line.looks(True, 16) == [Action.ANNOUNCE, Action.TERMINATE]
        assert line.look(False, living=False) is Action.WITHDRAW
        assert line.looks(False, 300) == [Action.WITHDRAW]


def test_a_neighbour_that_lacks_the_memory_ends_the_grace() -> None:
    line = ClientChannel()
    line.look(True)
    line.look(True)
    assert line.look(False, urgent=True) is Action.NOTHING, "a container within its limits is left alone"
    assert line.look(True, urgent=True) is Action.ANNOUNCE
    assert line.look(None) is Action.TERMINATE


def test_in_warn_mode_no_process_is_stopped() -> None:
    line = ClientChannel(Rules(evicts=False, grace_seconds=0, kill_seconds=0))
    assert line.look(True) is Action.WARN
    assert line.looks(True, 100) == []
    assert line.looks(False, 1) == [Action.WITHDRAW]


def test_a_zero_grace_still_takes_two_checks() -> None:
    line = ClientChannel(Rules(grace_seconds=0, kill_seconds=0))
    assert [line.look(True) for _ in range(4)] == [
        Action.WARN,
        Action.ANNOUNCE,
        Action.TERMINATE,
        Action.KILL,
    ]


def test_unobserved_time_counts_against_nobody() -> None:
    line = ClientChannel()
    line.look(True)
    assert line.looks(None, 1000) == []
    assert line.look(True) is Action.NOTHING
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
    line: ClientChannel, looks: list[tuple[bool | None, float, bool, int]]
) -> Iterator[tuple[Action, bool | None]]:
    for breach, after, living, times in looks:
        for _ in range(times):
            yield line.look(breach, after, living), breach


@given(ALL_RULES, Looks)
def test_no_process_is_stopped_without_a_warning_and_its_grace(
    rules: Rules, looks: list[tuple[bool | None, float, bool, int]]
) -> None:
    line = ClientChannel(rules)
    over_seconds, warned, announced_at, terminated_at, told_at = 0.0, False, None, None, line.now
    stopped = False
    for deed, breach in deeds_of(line, looks):
        if breach is not None:
            over_seconds += line.now - told_at if breach else 0.0
            told_at = line.now
        if deed is Action.WARN:
            warned = True
        if deed is Action.ANNOUNCE:
            assert rules.evicts
            assert warned
            assert over_seconds >= rules.grace_seconds - 1e-6  # sums of other order
            assert breach is True
            announced_at = line.now
        if deed in (Action.TERMINATE, Action.KILL):
            assert announced_at is not None
            assert line.now - announced_at >= rules.announce_seconds
        if deed is Action.TERMINATE:
            assert not stopped
            terminated_at = line.now
        if deed is Action.KILL:
            assert stopped or (terminated_at is not None and line.now - terminated_at >= rules.kill_seconds)
        if deed is Action.WITHDRAW:
            stopped = line.watch.stage is Stage.WARNED
        if deed is Action.WITHDRAW and line.watch.stage is Stage.COMPLIANT:
            warned, announced_at, terminated_at, over_seconds = False, None, None, 0.0


@given(
    st.sampled_from([5.0, 30.0, 100.0]),
    st.lists(st.tuples(st.booleans(), st.floats(0.25, 10), st.integers(1, 60)), max_size=30),
)
def test_over_the_limit_for_twice_the_grace_in_a_window_of_twenty_is_stopped(
    grace_seconds: float, looks: list[tuple[bool, float, int]]
) -> None:
    line = ClientChannel(Rules(grace_seconds=grace_seconds))
    line.look(False)
    checks: list[tuple[float, float, bool]] = []
    for breach, after, times in looks:
        for _ in range(times):
            if line.look(breach, after) is Action.ANNOUNCE:
                return
            checks.append((line.now - after, line.now, breach))
    window_seconds = 20 * grace_seconds
    for _, end, _ in checks:
        begin = end - window_seconds
        over_seconds = sum(
            until - max(since, begin) for since, until, over in checks if over and begin < until <= end
        )
        assert over_seconds <= 2 * grace_seconds


@given(ALL_RULES, st.floats(0.5, 8), st.integers(0, 50))
def test_a_violation_at_every_check_is_stopped_in_time(rules: Rules, every: float, before: int) -> None:
    line = ClientChannel(rules)
    assert line.looks(False, before) == []
    until = line.now + rules.grace_seconds + rules.announce_seconds + 4 * every
    deeds: list[Action] = []
    while line.now < until:
        deeds.append(line.look(True, every))
    assert (Action.TERMINATE in deeds) == rules.evicts


@pytest.mark.parametrize("stage", [Stage.TERMINATING, Stage.KILLING])
@given(breach=st.sampled_from([True, False, None]))
def test_freeing_memory_does_not_stop_a_termination(stage: Stage, breach: bool | None) -> None:
    line = ClientChannel(watch=Escalation(stage, since_seconds=1000.0))
    assert line.look(breach, RULES.kill_seconds) is Action.KILL
