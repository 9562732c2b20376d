"""The order of turns in a lane, from round to round."""

from __future__ import annotations

import pytest

from tests.support.node_agent.contended_gpu import STEP_SECONDS, Trainer, train
from tests.support.node_agent.gpu_bench import GPUBench

SHARES = (60, 20, 10, 10)


@pytest.mark.parametrize("iteration_seconds", [0.015, 0.025, 0.035])
def test_sessions_keep_their_order_whatever_exceeds_their_turns(iteration_seconds: float) -> None:
    bench = GPUBench(max_lanes=1)
    trainers = [
        Trainer(bench.job(f"pod-{number}", 10, 50, share), iteration_seconds)
        for number, share in enumerate(SHARES)
    ]
    train(bench, trainers, 1.0)
    order: list[str] = []
    for _ in range(round(20.0 / STEP_SECONDS)):
        train(bench, trainers, STEP_SECONDS)
        (holder,) = bench.turns.scheduler.turns
        if order[-1:] != [holder.key]:
            order.append(holder.key)
    rounds = [order[at : at + 4] for at in range(0, len(order) - 4, 4)]
    assert len(rounds) > 40
    assert all(each == rounds[0] for each in rounds)


def test_a_process_that_reconnects_while_it_waits_keeps_what_it_is_owed() -> None:
    bench = GPUBench(max_lanes=1)
    first, second = bench.job("a", 100, 100), bench.job("b", 100, 100)
    for process in (second, first):
        process.request()
        process.begin()
        if process is second:
            process.end()
            process.release()
    second.request()
    bench.clock.advance(3.0)
    service_seconds = second.lease.service_seconds
    again = second.reconnect()
    again.request()
    assert again.lease.service_seconds == service_seconds, "it was not away"
