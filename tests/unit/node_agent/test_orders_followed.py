"""How containers follow orders: pause, offload and restore, step by step, and everything that may come between."""

from __future__ import annotations

import pytest
from laneway.api.gpu_node import SessionState
from laneway.api.orders import Order, PodOrder
from laneway.node_agent.orders.telling import order_text
from laneway.node_agent.turns.hold import Hold

from tests.unit.node_agent.gpu_bench import MIB, GPUBench, Process

PAUSE = PodOrder(podUID="any", order=Order.PAUSE, reason="a test")
OFFLOAD = PodOrder(podUID="any", order=Order.OFFLOAD, reason="a test")


def able(
    bench: GPUBench, pod: str, persistent_mib: int = 100, ephemeral_mib: int = 100, *can: str
) -> Process:
    process = bench.job(pod, persistent_mib, ephemeral_mib)
    process.session.standing.can = frozenset(can or ("pause", "offload"))
    return process


def order(bench: GPUBench, hold: Hold, what: PodOrder | None) -> None:
    bench.turns.orders.take(hold, what)


def state(process: Process) -> SessionState:
    return process.hold.state(process.hold in process.bench.turns.giver.turns)


def told(process: Process) -> list[object]:
    """What it was told besides turns, in order."""
    return [packet[0] for packet in process.line.sent if packet[0] not in ("grant", "yield", "revoke")]


def offload(bench: GPUBench, process: Process) -> None:
    """Have it offloaded."""
    order(bench, process.hold, OFFLOAD)
    process.answer_paused()
    process.answer_offloaded()


def test_a_holder_pauses_at_its_boundary_and_its_ephemeral_goes_to_others() -> None:
    bench = GPUBench(memory_mib=400)
    first, second = able(bench, "a", 100, 150), able(bench, "b", 100, 150)
    assert bench.lane_of(first) == bench.lane_of(second), "there is no memory for two lanes"
    first.request()
    first.begin()
    order(bench, first.hold, PAUSE)
    assert told(first) == ["pause"]
    assert first.page.paused
    assert state(first) is SessionState.HOLDING
    assert bench.lane_of(first) is not None, "what it uses inside its iteration still counts"
    second.request()
    first.end()
    first.release()
    assert second.holds
    assert state(first) is SessionState.WAITING, "it has not answered"
    first.answer_paused()
    assert bench.lane_of(first) is None
    assert state(first) is SessionState.PAUSED
    assert bench.turns.memory.table.promised_bytes == 350 * MIB, (
        "its persistent bytes, and all of the other's"
    )


def test_a_paused_job_gets_no_turn_until_it_may_go_on() -> None:
    bench = GPUBench()
    process = able(bench, "a")
    order(bench, process.hold, PAUSE)
    process.answer_paused()
    process.request()
    bench.clock.advance(100)
    assert not process.holds
    order(bench, process.hold, None)
    assert told(process) == ["pause", "resume"]
    assert not process.page.paused
    assert process.holds, "it had asked meanwhile"
    assert process.line.sent[-2][0] == "resume", "it knows that it may run before it has the turn"
    assert order_text(process.hold) == ""


def test_an_offloaded_jobs_memory_is_free_for_others_and_comes_back_when_they_leave_room() -> None:
    bench = GPUBench(memory_mib=400)
    process = able(bench, "a", 250, 50)
    offload(bench, process)
    assert told(process) == ["pause", "offload"]
    assert state(process) is SessionState.OFFLOADED
    assert not process.hold.in_table
    assert bench.turns.memory.table.promised_bytes == 0
    assert "offloaded by order (a test): 250.0 MiB are on the host" in order_text(process.hold)

    other = able(bench, "b", 250, 50)
    other.request()
    assert other.holds
    process.request()
    order(bench, process.hold, None)
    bench.look_after()
    assert told(process) == ["pause", "offload"], "there is no room to restore to"
    assert "runs again once memory is free" in order_text(process.hold)
    other.release()
    other.die()
    assert told(process) == ["pause", "offload", "restore"]
    assert not process.holds
    process.answer_restored()
    assert told(process) == ["pause", "offload", "restore", "resume"]
    assert process.holds
    assert bench.turns.memory.table.promised_bytes == 300 * MIB


def test_memory_comes_back_only_when_it_is_covered_beside_the_turns_that_run() -> None:
    bench = GPUBench(memory_mib=400)
    process = able(bench, "a", 150, 50)
    offload(bench, process)
    runs = able(bench, "b", 100, 300)
    runs.request()
    runs.begin()
    runs.profile(100, 50)  # it has shrunk, and is still inside an iteration of the size before
    order(bench, process.hold, None)
    assert bench.lane_of(process) is not None
    bench.look_after()
    runs.end()
    assert told(process)[-1] == "restore"


def test_an_offload_that_is_taken_back_before_it_was_done_is_undone() -> None:
    bench = GPUBench()
    process = able(bench, "a")
    order(bench, process.hold, OFFLOAD)
    process.answer_paused()
    assert told(process) == ["pause", "offload"]
    order(bench, process.hold, None)
    process.request()
    assert told(process)[-1] == "restore"
    assert not process.holds, "it may be moving its memory right now"
    process.answer_offloaded()  # it crossed the order to restore
    assert told(process)[-1] == "restore"
    process.answer_restored()
    assert process.holds


def test_a_pause_after_an_offload_leaves_the_memory_where_it_is() -> None:
    bench = GPUBench()
    process = able(bench, "a")
    offload(bench, process)
    order(bench, process.hold, PAUSE)
    bench.look_after()
    assert state(process) is SessionState.OFFLOADED
    assert told(process) == ["pause", "offload"]


@pytest.mark.parametrize("can", [("nothing",), ("pause",)])
def test_who_cannot_move_its_memory_stays_paused_and_people_are_told(can: tuple[str, ...]) -> None:
    bench = GPUBench()
    process = able(bench, "a", 100, 100, *can)
    order(bench, process.hold, OFFLOAD)
    if "pause" in can:
        process.answer_paused()
    assert state(process) is SessionState.PAUSED
    assert "offload" not in told(process)
    assert "it cannot be offloaded: process 100 cannot move its memory" in order_text(process.hold)
    assert process.hold.in_table, "its memory counts"
    process.request()
    assert not process.holds
    order(bench, process.hold, None)
    assert process.holds


def test_who_refuses_stays_paused_and_is_asked_again_with_the_next_order_only() -> None:
    bench = GPUBench()
    process = able(bench, "a")
    order(bench, process.hold, OFFLOAD)
    process.answer_paused()
    bench.turns.orders.refused(process.hold, process.session, "offload", "no room on the host")
    bench.look_after()
    assert state(process) is SessionState.PAUSED
    assert told(process) == ["pause", "offload"]
    assert "refused: no room on the host" in order_text(process.hold)
    assert bench.notes[-1][1] == "OrderRefused"
    order(bench, process.hold, PAUSE)
    order(bench, process.hold, OFFLOAD)
    assert told(process) == ["pause", "offload", "offload"]


def test_who_cannot_restore_is_asked_again_a_moment_later() -> None:
    bench = GPUBench()
    process = able(bench, "a")
    offload(bench, process)
    order(bench, process.hold, None)
    bench.turns.orders.refused(process.hold, process.session, "restore", "the device has no room")
    bench.look_after()
    assert told(process).count("restore") == 1
    assert "could not restore: the device has no room" in order_text(process.hold)
    bench.clock.advance(1.0)
    bench.look_after()
    assert told(process).count("restore") == 2
    process.answer_restored()
    assert order_text(process.hold) == ""


def test_all_processes_of_a_container_follow() -> None:
    bench = GPUBench()
    first = able(bench, "a")
    second = bench.process(first.hold)
    second.session.standing.can = frozenset({"pause", "offload"})
    second.profile(100, 0)
    first.request()
    second.request()
    order(bench, first.hold, OFFLOAD)
    first.release()
    first.answer_paused()
    assert bench.lane_of(first) is not None, "the other still holds the turn"
    second.release()
    second.answer_paused()
    assert told(first) == told(second) == ["pause", "offload"]
    first.answer_offloaded()
    assert state(first) is SessionState.PAUSED
    assert first.hold.in_table
    second.answer_offloaded()
    assert state(first) is SessionState.OFFLOADED
    order(bench, first.hold, None)
    first.answer_restored()
    first.request()
    assert not first.holds
    second.answer_restored()
    assert first.holds


def test_the_death_of_the_one_that_had_not_answered_is_an_answer() -> None:
    bench = GPUBench()
    first = able(bench, "a")
    second = bench.process(first.hold)
    second.session.standing.can = frozenset({"pause", "offload"})
    second.profile(100, 0)
    order(bench, first.hold, OFFLOAD)
    first.answer_paused()
    second.die()
    assert told(first) == ["pause", "offload"]
    first.answer_offloaded()
    assert state(first) is SessionState.OFFLOADED
    first.die()
    assert not first.hold.offloaded
    assert state(first) is SessionState.LOST


def test_a_process_that_comes_while_its_container_is_paused_is_paused_before_it_runs() -> None:
    bench = GPUBench()
    hold = bench.container("a")
    order(bench, hold, PAUSE)
    process = bench.process(hold)
    process.session.standing.can = frozenset({"pause"})
    bench.turns.orders.came(hold, process.session, was_offloaded=False)
    process.request()
    assert told(process) == ["pause"]
    assert not process.holds
    process.answer_paused()
    assert state(process) is SessionState.PAUSED
    order(bench, hold, None)
    assert process.holds


def test_a_process_that_fetched_its_memory_itself_counts_again() -> None:
    bench = GPUBench()
    process = able(bench, "a", 250, 50)
    offload(bench, process)
    process.answer_restored()  # nobody asked: it was told to end, say
    assert process.hold.in_table
    assert bench.turns.memory.table.promised_bytes >= 250 * MIB
    process.request()
    assert not process.holds, "the order stands"
    assert told(process)[-1] == "offload"


def test_who_does_not_answer_is_told_of_and_loses_its_turn_as_ever() -> None:
    bench = GPUBench(timeout_seconds=2.0)
    process = able(bench, "a")
    process.request()
    process.begin()
    order(bench, process.hold, PAUSE)
    bench.clock.advance(2.1)
    bench.look_after()
    assert process.asked_to_yield, "it is held back all the same"
    bench.clock.advance(2.1)
    bench.turns.giver.revoke_stalled()
    assert not process.holds
    assert "process 100 has not answered pause in time" in order_text(process.hold)
    assert ("a", "OrderNotFollowed", "process 100 has not answered pause in 2 s") in bench.notes
    process.end()
    process.answer_paused()
    assert state(process) is SessionState.PAUSED
    assert order_text(process.hold) == "paused by order (a test)"


def test_a_container_that_goes_while_it_is_offloaded_leaves_nothing_behind() -> None:
    bench = GPUBench()
    process = able(bench, "a")
    offload(bench, process)
    bench.turns.forget(process.hold.key)
    assert bench.turns.memory.table.tenants == bench.turns.memory.table.waiting == ()
    again = able(bench, "b")
    again.request()
    assert again.holds


def test_what_a_paused_process_says_of_itself_does_not_let_it_run() -> None:
    bench = GPUBench()
    process = able(bench, "a")
    order(bench, process.hold, PAUSE)
    process.answer_paused()
    process.profile(120, 10)
    process.request()
    assert bench.lane_of(process) is None
    assert not process.holds
    assert bench.turns.memory.table.promised_bytes == 120 * MIB


def test_processes_that_wait_for_one_another_may_catch_up_before_they_pause() -> None:
    bench = GPUBench()
    ahead = able(bench, "a")
    behind = bench.process(ahead.hold)
    behind.session.standing.can = frozenset({"pause", "offload"})
    behind.profile(100, 0)
    other = able(bench, "b")
    assert bench.lane_of(other) is not None
    order(bench, ahead.hold, PAUSE)
    ahead.answer_paused()
    ahead.request()
    assert not ahead.holds, "it has stopped"
    behind.request()
    assert behind.holds, "it has an iteration to go"
    assert state(behind) is SessionState.HOLDING
    behind.release()
    behind.answer_paused()
    assert state(behind) is SessionState.PAUSED
    order(bench, ahead.hold, None)
    assert ahead.holds, "it had asked meanwhile"
