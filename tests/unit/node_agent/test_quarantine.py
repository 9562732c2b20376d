"""When a GPU is taken out of use, and what brings it back: the state machine alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.api.health_config import HealthConfig
from laneway.node_agent.gpus.protocol import (
    DriverUnavailableError,
    GPUError,
    GPUErrors,
    GPUHangError,
    GPULostError,
    GPUReading,
    Recovery,
)
from laneway.node_agent.gpus.quarantine import ExitCondition, GPUState, HealthCheck, after_check
from laneway.node_agent.gpus.xids import XIDS, XidClass, severity_of

CONFIG = HealthConfig(clean_seconds=30, clean_probes=3)
FINE = GPUErrors(uncorrected=0, remap_failed=False, remap_pending=False, recovery=Recovery.NONE)
IGNORED = sorted(number for number, kind in XIDS.items() if kind.severity is XidClass.IGNORED)
RESET = sorted(number for number, kind in XIDS.items() if kind.severity is XidClass.RESET)


def a_look(at: float = 0.0, *, errors: GPUErrors = FINE, xids: tuple[int, ...] = ()) -> HealthCheck:
    return HealthCheck(at, 1e9 + at, reading=GPUReading(used_bytes=0, errors=errors), xids=xids)


def quarantined(state: GPUState) -> bool:
    return state.quarantine is not None


def needs_reset(state: GPUState) -> bool:
    return state.quarantine is not None and state.quarantine.exit_condition is ExitCondition.RESET


def reason(state: GPUState) -> str:
    assert state.quarantine is not None
    return state.quarantine.reason(CONFIG)


def after(*looks: HealthCheck, config: HealthConfig = CONFIG) -> GPUState:
    state = GPUState()
    for look in looks:
        state = after_check(state, look, config)
    return state


@pytest.mark.parametrize("number", IGNORED)
def test_an_application_error_does_not_affect_the_gpu(number: int) -> None:
    assert not quarantined(after(a_look(xids=(number,))))


@pytest.mark.parametrize("number", [13, 31, 43, 45, 68, 109])
def test_xids_ignored_by_nvidias_device_plugin_are_ignored(number: int) -> None:
    assert severity_of(number, CONFIG) is XidClass.IGNORED


def test_an_unlisted_xid_quarantines_the_gpu_for_a_while() -> None:
    state = after(a_look(xids=(987,)))
    assert "XID 987 (not in the agent's table)" in reason(state)
    assert not needs_reset(state)


def test_the_nodes_configuration_overrides_the_table() -> None:
    config = HealthConfig(ignored_xids=(79,), quarantine_xids=(13,), reset_xids=(94,))
    assert not quarantined(after(a_look(xids=(79,)), config=config))
    assert not needs_reset(after(a_look(xids=(13,)), config=config))
    assert quarantined(after(a_look(xids=(13,)), config=config))
    assert needs_reset(after(a_look(xids=(94,)), config=config))


def test_a_quarantine_ends_after_enough_time_and_clean_checks() -> None:
    struck = after(a_look(0, xids=(94,)))
    looks = [a_look(at) for at in (2, 17, 31, 32)]
    states = [struck]
    for look in looks:
        states.append(after_check(states[-1], look, CONFIG))
    assert [quarantined(state) for state in states] == [True, True, True, True, False]


def test_time_without_checks_does_not_end_a_quarantine() -> None:
    struck = after(a_look(0, xids=(94,)))
    once = after_check(struck, a_look(2), CONFIG)
    assert quarantined(after_check(once, a_look(1000), CONFIG)), "that is the second look of three"


def test_another_error_restarts_the_wait() -> None:
    state = after(a_look(0, xids=(94,)), a_look(10), a_look(20), a_look(30, xids=(61,)), a_look(31))
    state = after_check(after_check(state, a_look(45), CONFIG), a_look(60), CONFIG)
    assert quarantined(state)
    assert not quarantined(after_check(state, a_look(61), CONFIG))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (GPUHangError("no answer within 5 s"), "the driver hangs: no answer within 5 s"),
        (GPULostError("GPU is lost"), "the GPU is lost: GPU is lost"),
        (DriverUnavailableError("not loaded"), "not loaded"),
    ],
)
def test_an_unanswering_gpu_is_quarantined_until_it_answers_several_times(
    error: GPUError, words: str
) -> None:
    fails = HealthCheck(0, 1e9, error=error)
    state = after(fails, a_look(1), a_look(2), replace(fails, monotonic_seconds=3), a_look(4), a_look(5))
    assert reason(state) == f"{words}; it returns when it answers again"
    assert not quarantined(after_check(state, a_look(6), CONFIG))


def test_an_error_besides_a_missing_answer_extends_the_quarantine() -> None:
    hangs = HealthCheck(2, 1e9, error=GPUHangError("no answer within 5 s"))
    for looks in ([hangs, a_look(4, xids=(94,))], [a_look(0, xids=(94,)), hangs]):
        state = after(*looks, a_look(6), a_look(8), a_look(10))
        assert quarantined(state)
        assert not quarantined(after_check(state, a_look(36), CONFIG))


def test_the_reason_does_not_change_while_the_finding_lasts() -> None:
    first = after(HealthCheck(0, 1e9, error=GPUHangError("no answer within 5 s")))
    then = after_check(first, HealthCheck(2, 1e9 + 2, error=GPUHangError("an earlier call")), CONFIG)
    assert reason(then) == reason(first)
    assert then.quarantine is not None
    assert then.quarantine.since_seconds == 1e9


def test_only_new_uncorrected_memory_errors_quarantine_a_gpu() -> None:
    old = replace(FINE, uncorrected=5)
    assert not quarantined(after(a_look(0, errors=old), a_look(2, errors=old)))
    assert quarantined(after(a_look(0, errors=old), a_look(2, errors=replace(FINE, uncorrected=6))))


def test_a_failed_remap_quarantines_a_gpu_while_it_is_reported() -> None:
    broken = replace(FINE, remap_failed=True)
    state = after(*(a_look(at, errors=broken) for at in range(0, 1000, 10)))
    assert "could not be replaced" in reason(state)


def test_a_gpu_in_mig_mode_is_not_shared_until_the_mode_is_off() -> None:
    look = HealthCheck(0, 1e9, reading=GPUReading(used_bytes=0, mig=True))
    state = after(look)
    assert reason(state) == (
        "MIG mode is on, and Laneway does not share MIG instances; it returns when MIG mode is off"
    )
    assert not quarantined(after(look, a_look(1), a_look(2), a_look(3)))


def test_a_pending_remap_leaves_the_gpu_in_use() -> None:
    assert not quarantined(after(a_look(errors=replace(FINE, remap_pending=True))))


def clean_for_long(state: GPUState, since: float = 100, errors: GPUErrors = FINE) -> GPUState:
    for at in (since, since + 20, since + 40):
        state = after_check(state, a_look(at, errors=errors), CONFIG)
    return state


@pytest.mark.parametrize("number", RESET)
def test_time_does_not_end_a_quarantine_that_needs_a_reset(number: int) -> None:
    state = after(a_look(xids=(number,)))
    assert "needs a reset or a reboot" in reason(state)
    for day in range(1, 30):
        state = clean_for_long(state, day * 86_400.0)
    assert quarantined(state)


def test_after_a_reboot_a_quarantine_ends_once_the_gpu_was_clean_for_a_while() -> None:
    state = after(a_look(xids=(79,)))
    state = after_check(state, replace(a_look(100), rebooted=True), CONFIG)
    assert quarantined(state)
    assert not quarantined(clean_for_long(state))


def test_a_driver_that_no_longer_requests_a_reset_shows_that_it_was_done() -> None:
    asks = replace(FINE, recovery=Recovery.RESET)
    state = after(a_look(0, xids=(119,)), a_look(2, errors=asks))
    assert quarantined(clean_for_long(state, errors=asks))
    assert not quarantined(clean_for_long(state))


def test_a_requested_reset_counts_without_an_xid() -> None:
    state = after(a_look(errors=replace(FINE, recovery=Recovery.REBOOT)))
    assert "the driver says that it needs a reboot of the node" in reason(state)
    assert needs_reset(state)


def test_a_restarted_error_count_shows_a_reset() -> None:
    silent = GPUErrors(uncorrected=2)
    state = after(a_look(0, errors=GPUErrors(uncorrected=1)), a_look(2, errors=silent, xids=(95,)))
    assert quarantined(clean_for_long(state, errors=silent))
    assert not quarantined(clean_for_long(state, errors=GPUErrors(uncorrected=0)))


def test_an_operator_ends_a_quarantine_at_once_unless_the_gpu_fails_then() -> None:
    state = after(a_look(xids=(79,)))
    assert not quarantined(after_check(state, replace(a_look(2), cleared=True), CONFIG))
    lost = after_check(state, HealthCheck(2, 1e9, error=GPULostError("lost"), cleared=True), CONFIG)
    assert "XID 79" not in reason(lost)
    assert "the GPU is lost" in reason(lost)


xids = st.lists(st.sampled_from([13, 31, 94, 61, 79, 48, 987, 154]), max_size=2).map(tuple)
errors = st.builds(
    GPUErrors,
    uncorrected=st.sampled_from([None, 0, 1, 2]),
    remap_failed=st.sampled_from([None, False, False, True]),
    remap_pending=st.sampled_from([None, False, True]),
    recovery=st.sampled_from([None, *Recovery]),
)
failures = st.sampled_from([GPUHangError("hangs"), GPULostError("lost"), DriverUnavailableError("gone")])


@st.composite
def histories(draw: st.DrawFn) -> list[HealthCheck]:
    at, looks = 0.0, []
    for _ in range(draw(st.integers(1, 25))):
        at += draw(st.sampled_from([1.0, 5.0, 20.0]))
        fails = draw(st.sampled_from([False, False, False, True]))
        looks.append(
            HealthCheck(
                at,
                1e9 + at,
                reading=None if fails else GPUReading(0, errors=draw(errors)),
                error=draw(failures) if fails else None,
                xids=draw(xids),
                rebooted=draw(st.sampled_from([False] * 9 + [True])),
                cleared=draw(st.sampled_from([False] * 9 + [True])),
            )
        )
    return looks


@given(histories())
def test_no_quarantine_ends_early(looks: list[HealthCheck]) -> None:
    state, last_bad_seconds, clean_probes = GPUState(), -1.0, 0
    for look in looks:
        before, state = state, after_check(state, look, CONFIG)
        bad = look.error is not None or any(
            severity_of(number, CONFIG) is not XidClass.IGNORED for number in look.xids
        )
        if bad:
            assert quarantined(state)
            last_bad_seconds, clean_probes = look.monotonic_seconds, 0
        else:
            clean_probes += 1
        if quarantined(before) and not quarantined(state) and not look.cleared:
            assert clean_probes >= CONFIG.clean_probes
            if before.quarantine is not None and before.quarantine.exit_condition is not ExitCondition.CHECKS:
                assert look.monotonic_seconds - last_bad_seconds >= CONFIG.clean_seconds
            assert not needs_reset(before), "a reset makes it wait, and does not end it"
        if needs_reset(before) and not needs_reset(state):
            asked = before.quarantine is not None and before.quarantine.reset_requested
            restarted = (
                look.reading is not None
                and before.uncorrected is not None
                and look.reading.errors.uncorrected is not None
                and look.reading.errors.uncorrected < before.uncorrected
            )
            assert look.rebooted or look.cleared or asked or restarted


@given(histories())
def test_every_quarantine_ends_after_a_reset_and_a_clean_period(looks: list[HealthCheck]) -> None:
    state = after(*looks)
    end = looks[-1].monotonic_seconds
    fine = replace(FINE, uncorrected=state.uncorrected)
    state = after_check(state, replace(a_look(end + 1, errors=fine), rebooted=True), CONFIG)
    assert not quarantined(clean_for_long(state, end + 2, errors=fine))


@given(histories())
def test_a_reported_cause_stays_until_the_quarantine_ends(looks: list[HealthCheck]) -> None:
    state = GPUState()
    for look in looks:
        before, state = state, after_check(state, look, CONFIG)
        if before.quarantine is not None and state.quarantine is not None and not look.cleared:
            assert list(state.quarantine.causes.items())[: len(before.quarantine.causes)] == list(
                before.quarantine.causes.items()
            )
            assert state.quarantine.since_seconds == before.quarantine.since_seconds
