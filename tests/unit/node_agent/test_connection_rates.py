"""Which addresses open connections too fast."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.node_agent.report.connection_rates import (
    BLOCK_SECONDS,
    CONNECTIONS_PER_SECOND,
    ConnectionRates,
)

from tests.unit.node_agent.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def rates(clock: ManualClock) -> ConnectionRates:
    return ConnectionRates(clock)


def test_one_address_may_use_the_whole_rate(rates: ConnectionRates) -> None:
    assert not any(rates.exceeded_by("a") for _ in range(CONNECTIONS_PER_SECOND))
    assert rates.exceeded_by("a")


def test_an_exceeded_rate_is_divided_equally(rates: ConnectionRates) -> None:
    for _ in range(CONNECTIONS_PER_SECOND):
        rates.exceeded_by("a")
    assert not any(rates.exceeded_by("b") for _ in range(CONNECTIONS_PER_SECOND // 2))
    assert rates.exceeded_by("b")


def test_each_second_counts_for_itself(rates: ConnectionRates, clock: ManualClock) -> None:
    for _ in range(CONNECTIONS_PER_SECOND):
        rates.exceeded_by("a")
    clock.now_seconds += 1
    assert not rates.exceeded_by("a")


def test_a_block_ends(rates: ConnectionRates, clock: ManualClock) -> None:
    rates.block("a")
    clock.now_seconds += BLOCK_SECONDS / 2
    rates.block("b")
    assert rates.is_blocked("a")
    assert not rates.unblock_expired()
    assert rates.blocked == ("b", "a")
    clock.now_seconds += BLOCK_SECONDS / 2
    assert rates.unblock_expired()
    assert rates.blocked == ("b",)
    assert not rates.is_blocked("a")


@given(st.lists(st.sampled_from("abcdefgh"), max_size=4 * CONNECTIONS_PER_SECOND))
def test_an_address_within_its_share_is_never_exceeded(connections: list[str]) -> None:
    rates = ConnectionRates(ManualClock())
    counts: Counter[str] = Counter()
    for address in connections:
        counts[address] += 1
        exceeded = rates.exceeded_by(address)
        assert not (exceeded and counts[address] <= CONNECTIONS_PER_SECOND / len(counts))
        assert (
            exceeded or counts.total() <= CONNECTIONS_PER_SECOND or counts[address] <= CONNECTIONS_PER_SECOND
        )
