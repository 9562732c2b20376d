"""A lane passes on only when the memory of its last holder is free: after revocations, broken connections and
the ends of processes."""

from __future__ import annotations

import pytest
from laneway.api.orders import Order, PodOrder
from laneway.node_agent.report.snapshot import take_snapshot
from laneway.node_agent.turns.pending_releases import MemoryReading

from tests.support.node_agent.gpu_bench import MIB, GPUBench, Process


def revoked_and_waiting() -> tuple[GPUBench, Process, Process]:
    """52 of 80: a revoked holder inside its iteration, and a neighbour that needs as much memory."""
    bench = GPUBench(memory_mib=800, timeout_seconds=30)
    holder, waiting = bench.job("holder", 20, 500), bench.job("waiting", 20, 500)
    assert bench.lane_of(holder) == bench.lane_of(waiting)
    holder.request()
    holder.begin()
    waiting.request()
    bench.clock.advance(1)
    assert holder.asked_to_yield
    bench.clock.advance(30)
    bench.turns.scheduler.revoke_stalled()
    assert not holder.holds_turn
    return bench, holder, waiting


def message(bench: GPUBench, process: Process) -> str:
    snapshot = take_snapshot(bench.turns, bench.clock.now)
    return next(each.message for each in snapshot.leases if each.record is process.lease.record)


def reading(bench: GPUBench, held_mib: int, *pids: int, key: str) -> MemoryReading:
    by_pid = dict.fromkeys(pids, held_mib * MIB)
    return MemoryReading(bench.clock.now, by_pid, {key: held_mib * MIB} if pids else {})


def test_a_revoked_holder_keeps_its_lane_until_it_releases() -> None:
    bench, holder, waiting = revoked_and_waiting()
    assert not waiting.holds_turn
    assert message(bench, waiting) == (
        "Waiting for default/holder to release its memory: it did not yield within 30 s."
    )
    holder.end()
    holder.release()
    assert waiting.holds_turn
    assert message(bench, waiting) == ""


def test_a_revoked_holder_that_asks_again_is_outside() -> None:
    _, holder, waiting = revoked_and_waiting()
    holder.end()
    holder.request()
    assert waiting.holds_turn


def test_where_the_driver_lists_memory_the_lane_waits_until_it_is_gone() -> None:
    bench, holder, waiting = revoked_and_waiting()
    turns, key, pid = bench.turns, holder.lease.key, holder.session.pid
    turns.record_memory_reading(reading(bench, 520, pid, key=key))
    holder.end()
    holder.release()
    assert not waiting.holds_turn, "no reading was taken since it released"
    bench.clock.advance(0.1)
    turns.record_memory_reading(reading(bench, 520, pid, key=key))
    assert not waiting.holds_turn
    bench.clock.advance(0.1)
    turns.record_memory_reading(reading(bench, 20, pid, key=key))
    assert waiting.holds_turn, "what is left is its persistent memory"


def test_a_reading_that_was_under_way_when_the_holder_released_does_not_count() -> None:
    bench, holder, waiting = revoked_and_waiting()
    early = reading(bench, 0, key=holder.lease.key)
    bench.turns.record_memory_reading(early)
    bench.clock.advance(0.1)
    holder.end()
    holder.release()
    bench.turns.record_memory_reading(early)
    assert not waiting.holds_turn


def test_the_memory_of_a_holder_that_dies_is_gone_before_its_lane_passes_on() -> None:
    bench, holder, waiting = revoked_and_waiting()
    key, pid = holder.lease.key, holder.session.pid
    bench.turns.record_memory_reading(reading(bench, 520, pid, key=key))
    holder.die()
    bench.clock.advance(0.1)
    bench.turns.record_memory_reading(reading(bench, 520, pid, key=key))
    assert not waiting.holds_turn, "the driver still shows it"
    bench.clock.advance(0.1)
    bench.turns.record_memory_reading(reading(bench, 0, key=key))
    assert waiting.holds_turn


def test_where_the_driver_lists_no_processes_the_end_of_a_process_counts() -> None:
    bench, holder, waiting = revoked_and_waiting()
    bench.turns.record_memory_reading(reading(bench, 520, holder.session.pid, key=holder.lease.key))
    bench.turns.record_memory_reading(None)
    holder.die()
    assert waiting.holds_turn


def test_a_broken_connection_keeps_the_lane_until_the_process_is_outside() -> None:
    bench = GPUBench(max_lanes=1)
    holder, waiting = bench.job("holder", 20, 500), bench.job("waiting", 20, 400)
    holder.request()
    holder.begin()
    waiting.request()
    holder.disconnect()
    assert not waiting.holds_turn
    assert "it lost its connection to the node agent." in message(bench, waiting)
    again = holder.reconnect()
    assert again.channel.sent[-1][0] == "revoke"
    assert not waiting.holds_turn
    again.end()
    again.release()
    assert waiting.holds_turn


def test_a_holder_that_keeps_its_memory_is_handed_to_the_watchdog_after_a_while() -> None:
    bench, holder, waiting = revoked_and_waiting()
    bench.clock.advance(29)
    bench.turns.scheduler.revoke_stalled()
    assert holder.lease.overdue_release == ""
    bench.clock.advance(1)
    bench.turns.scheduler.revoke_stalled()
    assert holder.lease.overdue_release == (
        "does not release its memory after turn 1 of lane 0: did not yield within 30 s"
    )
    assert [note[:2] for note in bench.notes] == [("holder", "TurnRevoked"), ("holder", "TurnNotReleased")]
    bench.turns.scheduler.revoke_stalled()
    assert len(bench.notes) == 2, "it is reported once"
    holder.die()
    assert waiting.holds_turn
    assert holder.lease.overdue_release == ""


def test_memory_beside_a_holder_that_died_is_handed_to_the_watchdog_after_a_while() -> None:
    bench, holder, waiting = revoked_and_waiting()
    lease, beside = holder.lease, 777
    bench.turns.record_memory_reading(reading(bench, 520, holder.session.pid, beside, key=lease.key))
    holder.die()
    bench.clock.advance(0.1)
    bench.turns.record_memory_reading(reading(bench, 100, beside, key=lease.key))
    assert not waiting.holds_turn
    bench.clock.advance(30)
    bench.turns.scheduler.revoke_stalled()
    assert lease.overdue_release == (
        "does not release its memory after turn 1 of lane 0: did not yield within 30 s"
    )
    bench.turns.record_memory_reading(reading(bench, 0, key=lease.key))
    assert waiting.holds_turn
    assert lease.overdue_release == ""


@pytest.mark.parametrize(
    ("context_mib", "freed_mib", "left_mib", "passes_on"),
    [
        (300, 200, 300, True),
        (300, 200, 315, True),
        (300, 200, 520, False),
        (300, 260, 300, True),
        (0, 200, 0, True),
    ],
    ids=["context", "context and padding", "activations", "gradients moved too", "simulated"],
)
def test_the_contexts_of_an_offloaded_holder_do_not_keep_its_lane(
    context_mib: int, freed_mib: int, left_mib: int, passes_on: bool
) -> None:
    bench = GPUBench(max_lanes=1, memory_mib=1500, framework_mib=context_mib, padding_percent=5)
    holder, waiting = bench.job("holder", 200, 500), bench.job("waiting", 20, 500)
    holder.session.framework_reserve_bytes = context_mib * MIB
    holder.profile(200, 500)
    holder.session.order_state.capabilities = frozenset({"pause", "offload"})
    holder.request()
    holder.begin()
    waiting.request()
    pid, key = holder.session.pid, holder.lease.key
    bench.turns.record_memory_reading(reading(bench, 1000, pid, key=key))
    holder.disconnect()
    again = holder.reconnect()
    again.session.framework_reserve_bytes = context_mib * MIB
    again.session.order_state.capabilities = holder.session.order_state.capabilities
    offload = PodOrder(podUID="any", order=Order.OFFLOAD, reason="a test")
    bench.turns.orders.set_order(holder.lease, offload)
    again.end()
    again.release()
    again.answer_paused()
    bench.turns.orders.offloaded(holder.lease, again.session, freed_mib * MIB)
    assert holder.lease.offloaded
    bench.clock.advance(0.1)
    bench.turns.record_memory_reading(reading(bench, left_mib, pid, key=key))
    bench.clock.advance(60)
    bench.turns.scheduler.revoke_stalled()
    assert waiting.holds_turn == passes_on
    assert (holder.lease.overdue_release == "") == passes_on


def test_a_broken_connection_is_not_held_against_a_holder_for_whom_nobody_waits() -> None:
    bench = GPUBench(max_lanes=1)
    holder = bench.job("holder", 20, 500)
    holder.request()
    holder.begin()
    holder.disconnect()
    bench.clock.advance(1000)
    bench.turns.scheduler.revoke_stalled()
    assert holder.lease.overdue_release == ""


def test_other_lanes_go_on_beside_a_pending_release() -> None:
    bench = GPUBench(timeout_seconds=5)
    holder, other = bench.job("holder", 20, 500), bench.job("other", 20, 300)
    assert bench.lane_of(holder) != bench.lane_of(other)
    holder.request()
    holder.begin()
    holder.disconnect()
    other.request()
    assert other.holds_turn


@pytest.mark.parametrize(
    ("iteration_seconds", "limit_seconds"),
    [(0.05, 5.0), (2.0, 5.0), (10.0, 20.0), (1e9, 50.0)],
    ids=["short", "within the timeout", "long accumulation", "a lie"],
)
def test_the_time_to_release_follows_the_iteration_up_to_a_bound(
    iteration_seconds: float, limit_seconds: float
) -> None:
    bench = GPUBench(max_lanes=1, timeout_seconds=5)
    holder, waiting = bench.job("holder", 20, 500), bench.job("waiting", 20, 500)
    holder.profile(20, 500, iteration_seconds=iteration_seconds)
    holder.request()
    holder.begin()
    waiting.request()
    while not holder.asked_to_yield:
        bench.clock.advance(0.01)
    bench.clock.advance(limit_seconds - 0.1)
    bench.turns.scheduler.revoke_stalled()
    assert holder.holds_turn
    bench.clock.advance(0.2)
    bench.turns.scheduler.revoke_stalled()
    assert not holder.holds_turn


def compiling(bench: GPUBench) -> tuple[Process, Process]:
    """An unmeasured holder that was asked to yield inside its first iteration, and a neighbour that waits."""
    holder = bench.process(bench.container("holder", 50))
    waiting = bench.job("waiting", 20, 300)
    holder.request()
    holder.begin()
    waiting.request()
    bench.clock.advance(1)
    assert holder.asked_to_yield
    return holder, waiting


def test_a_first_iteration_that_compiles_keeps_its_turn_until_it_ends() -> None:
    bench = GPUBench(max_lanes=1, timeout_seconds=5)
    holder, waiting = compiling(bench)
    bench.clock.advance(49)
    bench.turns.scheduler.revoke_stalled()
    assert holder.holds_turn
    holder.end()
    bench.turns.scheduler.revoke_stalled()
    assert holder.holds_turn, "its release is under way"
    holder.release()
    assert waiting.holds_turn
    assert not bench.notes


def test_a_first_iteration_that_does_not_end_loses_its_turn() -> None:
    bench = GPUBench(max_lanes=1, timeout_seconds=5)
    holder, _ = compiling(bench)
    bench.clock.advance(50)
    bench.turns.scheduler.revoke_stalled()
    assert not holder.holds_turn


def test_only_the_first_iteration_has_the_longer_time() -> None:
    bench = GPUBench(max_lanes=1, timeout_seconds=5)
    holder, waiting = compiling(bench)
    holder.end()
    holder.release()
    waiting.release()
    holder.request()
    holder.begin()
    assert bench.turns.scheduler.release_limit_seconds(holder.lease) == 5


def test_a_program_without_iterations_has_the_configured_time() -> None:
    bench = GPUBench(max_lanes=1, timeout_seconds=5)
    holder, _ = compiling(bench)
    holder.session.has_iterations = False
    assert bench.turns.scheduler.release_limit_seconds(holder.lease) == 5


def test_an_unmeasured_holder_has_the_configured_time() -> None:
    bench = GPUBench(max_lanes=1, timeout_seconds=5)
    holder = bench.process(bench.container("holder", 50))
    assert bench.turns.scheduler.release_limit_seconds(holder.lease) == 5


def test_a_worker_that_may_wait_for_others_has_longer_than_any_holder_that_they_wait_for() -> None:
    bench = GPUBench(max_lanes=1, timeout_seconds=5)
    worker = bench.process(bench.container("worker", 50, spans_gpus=True))
    worker.profile(20, 300)
    waiting = bench.job("waiting", 20, 300)
    worker.request()
    worker.begin()
    waiting.request()
    while not worker.asked_to_yield:
        bench.clock.advance(0.01)
    lost_seconds, patience_seconds, kill_seconds = 10 * 5, 5, 30
    bench.clock.advance(lost_seconds + patience_seconds + kill_seconds - 0.1)
    bench.turns.scheduler.revoke_stalled()
    assert worker.holds_turn
    bench.clock.advance(0.2)
    bench.turns.scheduler.revoke_stalled()
    assert not worker.holds_turn
