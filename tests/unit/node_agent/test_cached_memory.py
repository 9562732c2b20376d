"""Cached memory stays between turns where no other job counts on it, and is freed before one does."""

from __future__ import annotations

from laneway.api.orders import Order, PodOrder

from tests.support.node_agent.gpu_bench import GPUBench, Process


def turn_of(process: Process) -> None:
    """A turn of one iteration, released as the page says."""
    process.request()
    process.begin()
    process.end()
    process.release()


def test_a_job_alone_in_its_lane_keeps_its_cache() -> None:
    bench = GPUBench()
    alone, other = bench.job("alone", 100, 300), bench.job("other", 100, 300)
    turn_of(alone)
    assert bench.lane_of(alone) != bench.lane_of(other)
    assert alone.page.kept_memory


def test_jobs_of_one_lane_keep_their_cache_where_memory_covers_all_at_once() -> None:
    bench = GPUBench(max_lanes=1)
    first, second = bench.job("first", 100, 300), bench.job("second", 100, 300)
    assert bench.lane_of(first) == bench.lane_of(second)
    turn_of(first)
    assert first.page.kept_memory


def test_jobs_that_share_a_lane_for_its_memory_free_their_cache() -> None:
    bench = GPUBench()
    first, second = bench.job("first", 50, 700), bench.job("second", 50, 700)
    assert bench.lane_of(first) == bench.lane_of(second)
    turn_of(first)
    assert not first.page.kept_memory


def newcomer_beside_a_cache() -> tuple[GPUBench, Process, Process]:
    """A job that has kept its cache, and one that joined its lane later and waits."""
    bench = GPUBench()
    keeps = bench.job("keeps", 50, 700)
    turn_of(keeps)
    assert keeps.page.kept_memory
    newcomer = bench.job("newcomer", 50, 700)
    assert bench.lane_of(keeps) == bench.lane_of(newcomer)
    newcomer.request()
    return bench, keeps, newcomer


def test_a_newcomer_waits_until_the_cache_is_freed() -> None:
    _, keeps, newcomer = newcomer_beside_a_cache()
    assert keeps.channel.sent[-1] == ("free",)
    assert not newcomer.holds_turn
    keeps.free_memory()
    assert newcomer.holds_turn


def test_a_request_does_not_free_a_cache() -> None:
    _, keeps, newcomer = newcomer_beside_a_cache()
    keeps.request()
    assert not newcomer.holds_turn
    keeps.free_memory()
    if keeps.holds_turn:
        keeps.begin()
        keeps.end()
        keeps.release()
    assert newcomer.holds_turn
    assert not keeps.page.kept_memory


def test_the_end_of_a_process_frees_its_cache() -> None:
    _, keeps, newcomer = newcomer_beside_a_cache()
    keeps.die()
    assert newcomer.holds_turn


def test_a_paused_job_frees_its_cache_before_others_use_it() -> None:
    bench = GPUBench()
    paused = bench.job("paused", 50, 700)
    paused.session.order_state.capabilities = frozenset({"pause"})
    turn_of(paused)
    bench.turns.orders.set_order(paused.lease, PodOrder(podUID="any", order=Order.PAUSE))
    paused.answer_paused()
    assert paused.channel.sent[-1] == ("free",)
    other = bench.job("other", 50, 700)
    other.request()
    assert not other.holds_turn
    paused.free_memory()
    assert other.holds_turn


def test_a_job_whose_growth_is_not_covered_frees_its_cache() -> None:
    bench = GPUBench()
    grows = bench.job("grows", 100, 300)
    bench.job("other", 100, 300)
    turn_of(grows)
    assert grows.page.kept_memory
    grows.profile(900, 300)
    assert grows.lease.uncovered
    assert grows.channel.sent[-1] == ("free",)
    assert not grows.page.keeps_memory
