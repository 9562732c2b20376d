"""How long addresses wait between answers."""

from __future__ import annotations

import heapq

import pytest
from laneway.node_agent.report.answer_shares import COOLDOWN_FACTOR, MAX_COOLDOWN_SECONDS, AnswerShares

COST_SECONDS = 0.01


def answer(
    shares: AnswerShares, address: str, now_seconds: float, cost_seconds: float = COST_SECONDS
) -> float:
    """Begin and end an answer at once. Return for how long the address may not have another one."""
    assert shares.begin(address, now_seconds) == 0
    shares.end(address, cost_seconds, now_seconds)
    return shares.begin(address, now_seconds)


def rates(addresses: int, polite_interval_seconds: float, until_seconds: float) -> tuple[float, float, float]:
    """Let addresses ask without a pause, and one more at intervals. Return the parts of the time that their answers take, and
    the longest wait of the latter in the second half."""
    shares = AnswerShares()
    asks = [(0.0, f"eager-{number}") for number in range(addresses)] + [(0.0, "polite")]
    due_seconds = spent_eager = spent_polite = longest_seconds = 0.0
    while asks:
        now_seconds, address = heapq.heappop(asks)
        if now_seconds > until_seconds:
            break
        wait_seconds = shares.begin(address, now_seconds)
        if wait_seconds:
            heapq.heappush(asks, (now_seconds + wait_seconds, address))
            continue
        shares.end(address, COST_SECONDS, now_seconds)
        shares.forget_idle(now_seconds)
        if address == "polite":
            spent_polite += COST_SECONDS
            if now_seconds > until_seconds / 2:
                longest_seconds = max(longest_seconds, now_seconds - due_seconds)
            due_seconds = now_seconds + polite_interval_seconds
            heapq.heappush(asks, (due_seconds, address))
        else:
            spent_eager += COST_SECONDS
            heapq.heappush(asks, (now_seconds + 1e-6, address))
    return spent_eager / until_seconds, spent_polite / until_seconds, longest_seconds


def test_an_address_alone_gets_a_tenth_of_the_time() -> None:
    shares = AnswerShares()
    assert answer(shares, "a", 0.0) == pytest.approx(COOLDOWN_FACTOR * COST_SECONDS)
    assert answer(shares, "a", 1.0) == pytest.approx(COOLDOWN_FACTOR * COST_SECONDS)


def test_addresses_that_asked_lately_share_it() -> None:
    shares = AnswerShares()
    shares.begin("a", 0.0)
    shares.end("a", COST_SECONDS, 0.0)
    assert answer(shares, "b", 0.0) == pytest.approx(2 * COOLDOWN_FACTOR * COST_SECONDS)


def test_a_cooldown_is_bounded() -> None:
    assert answer(AnswerShares(), "a", 0.0, cost_seconds=60.0) == MAX_COOLDOWN_SECONDS


def test_an_address_is_forgotten_after_its_cooldown() -> None:
    shares = AnswerShares()
    answer(shares, "a", 0.0)
    shares.forget_idle(10.0)
    assert answer(shares, "b", 10.0) == pytest.approx(COOLDOWN_FACTOR * COST_SECONDS)


@pytest.mark.parametrize("eager", [1, 8, 100])
def test_a_client_that_asks_at_intervals_is_answered_at_once_beside_eager_ones(eager: int) -> None:
    eager_share, polite_share, longest_seconds = rates(
        eager, polite_interval_seconds=2.0, until_seconds=400.0
    )
    assert longest_seconds == 0
    assert polite_share == pytest.approx(COST_SECONDS / 2, rel=0.1)
    assert eager_share <= 0.13
