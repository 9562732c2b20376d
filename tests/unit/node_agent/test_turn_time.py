"""How long a container has held turns, and whether others of its lane lack them."""

from __future__ import annotations

import pytest
from laneway.node_agent.turns.turn_time import TurnUse

from tests.support.node_agent.gpu_bench import GPUBench


def wait(bench: GPUBench, seconds: float) -> None:
    """Let time pass as the agent's regular work sees it."""
    for _ in range(round(seconds / 0.25)):
        bench.clock.advance(0.25)
        bench.turns.sample_turn_time()


def test_turns_count_by_the_clock() -> None:
    bench = GPUBench()
    process = bench.job("a", 10, 10)
    process.request()
    wait(bench, 1)
    process.release()
    wait(bench, 3)
    process.request()
    wait(bench, 0.5)
    use = bench.turns.turn_use(process.lease)
    assert use.turn_seconds == pytest.approx(1.5)
    assert use.recent_ratio == pytest.approx(0.4)
    assert not use.contended


def test_a_container_without_a_session_lacks_the_turns_of_its_lane() -> None:
    bench = GPUBench(max_lanes=1)
    silent, other = bench.container("silent", 30), bench.job("other", 10, 10, percent=30)
    assert not bench.turns.turn_use(silent).contended
    other.request()
    assert bench.turns.turn_use(silent) == TurnUse(0.0, 0.0, contended=True)
    assert not bench.turns.turn_use(other.lease).contended


def test_a_container_in_a_lane_of_its_own_takes_no_turns_from_others() -> None:
    bench = GPUBench()
    silent, other = bench.container("silent", 30), bench.job("other", 10, 10, percent=30)
    other.request()
    assert not bench.turns.turn_use(silent).contended


def test_a_container_without_a_lane_takes_its_time_from_all_others() -> None:
    bench = GPUBench()
    other = bench.job("other", 10, 10, percent=100)
    bench.container("silent", 90)
    waits = bench.container("waits", 60)
    other.request()
    assert bench.turns.memory.lane_of(waits) is None
    assert bench.turns.turn_use(waits).contended
