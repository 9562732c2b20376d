"""Gaps between iterations: others fill them, and yet none of them gets less than its share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.node_agent.turns.gap_wait import GapWait

from tests.support.node_agent.contended_gpu import Trainer, train
from tests.support.node_agent.gpu_bench import GPUBench


def in_one_lane(bench: GPUBench, *timings: tuple[int, float, float]) -> list[Trainer]:
    """Return jobs of one lane: share, seconds of an iteration, seconds of a gap."""
    return [
        Trainer(bench.job(f"pod-{number}", 10, 50, percent), iteration_seconds=iteration, gap_seconds=gap)
        for number, (percent, iteration, gap) in enumerate(timings)
    ]


@pytest.mark.parametrize("share", [50, 80, 20])
@pytest.mark.parametrize("gap_seconds", [0.005, 0.02, 0.1])
def test_a_job_with_gaps_has_its_share_beside_one_with_long_iterations(
    share: int, gap_seconds: float
) -> None:
    bench = GPUBench(max_lanes=1)
    short, long = in_one_lane(bench, (share, 0.02, gap_seconds), (100 - share, 0.4, 0.0))
    train(bench, [short, long], 5.0)
    of_short, of_long = train(bench, [short, long], 20.0)
    alone = 0.02 / (0.02 + gap_seconds)
    assert of_short >= 0.9 * alone * share / 100
    assert of_long >= 0.9 * (100 - share) / 100 - 0.4 / 20, "but for an iteration that has not ended"


def test_a_job_with_short_iterations_fills_the_gaps_of_another() -> None:
    bench = GPUBench(max_lanes=1)
    gappy, filling = in_one_lane(bench, (50, 0.02, 0.2), (50, 0.02, 0.0))
    train(bench, [gappy, filling], 5.0)
    of_gappy, of_filling = train(bench, [gappy, filling], 20.0)
    assert of_gappy >= 0.8 * 0.02 / 0.22, "it hardly waits"
    assert of_filling >= 0.8, "it has what the other one leaves"


def test_a_holder_that_rests_for_long_does_not_keep_the_lane_although_others_owe_it_time() -> None:
    bench = GPUBench(max_lanes=1)
    resting, long = in_one_lane(bench, (50, 0.02, 0.005), (50, 0.4, 0.0))
    while not resting.process.holds_turn or not resting.process.lease.gap_wait.owed_seconds:
        train(bench, [resting, long], 0.005)
    resting.gap_seconds = 30.0
    train(bench, [resting, long], 3.0)
    assert train(bench, [resting, long], 10.0)[1] >= 0.9


@given(
    turns=st.lists(st.tuples(st.booleans(), st.floats(0, 10), st.floats(0, 10)), max_size=30),
    wait_ratio=st.floats(0.01, 100),
)
def test_what_is_owed_is_the_wait_for_fillers_less_what_turns_make_up_for(
    turns: list[tuple[bool, float, float]], wait_ratio: float
) -> None:
    wait = GapWait()
    waited_for_fillers = 0.0
    for leaves, waited_seconds, held_seconds in turns:
        if leaves:
            wait.leave()
            waited_for_fillers += waited_seconds
        before_seconds = wait.owed_seconds
        wait.begin_turn(waited_seconds)
        assert wait.owed_seconds == before_seconds + (waited_seconds if leaves else 0.0)
        enough_seconds = wait.free_after_seconds(wait_ratio)
        wait.end_turn(held_seconds, wait_ratio)
        assert 0.0 <= wait.owed_seconds <= waited_for_fillers + 1e-6
        assert held_seconds <= enough_seconds or wait.owed_seconds <= 1e-6
