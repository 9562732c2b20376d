"""How containers follow orders: pause, offload and restore, step by step, and everything that may come between."""

from __future__ import annotations

import pytest
from laneway.api.gpu_node import SessionState
from laneway.api.orders import Order, PodOrder
from laneway.node_agent.report.order_message import order_message
from laneway.node_agent.turns.lease import Lease

from tests.support.node_agent.gpu_bench import MIB, GPUBench, Process

PAUSE = PodOrder(podUID="any", order=Order.PAUSE, reason="a test")
OFFLOAD = PodOrder(podUID="any", order=Order.OFFLOAD, reason="a test")


def able(
    bench: GPUBench, pod: str, persistent_mib: int = 100, ephemeral_mib: int = 100, *can: str
) -> Process:
    process = bench.job(pod, persistent_mib, ephemeral_mib)
    process.session.order_state.capabilities = frozenset(can or ("pause", "offload"))
    return process


def order(bench: GPUBench, lease: Lease, what: PodOrder | None) -> None:
    bench.turns.orders.set_order(lease, what)


def state(process: Process) -> SessionState:
    return process.lease.state(process.lease in process.bench.turns.scheduler.turns)


def requests_to(process: Process) -> list[object]:
    """Return the kinds of the packets that the process got, without those about turns and its cache, in order."""
    about_turns = ("grant", "yield", "revoke", "free")
    return [packet[0] for packet in process.channel.sent if packet[0] not in about_turns]


def offload(bench: GPUBench, process: Process) -> None:
    """Have it offloaded."""
    order(bench, process.lease, OFFLOAD)
    process.answer_paused()
    process.answer_offloaded()


def test_a_holder_pauses_at_its_boundary_and_its_ephemeral_goes_to_others() -> None:
    bench = GPUBench(memory_mib=400)
    first, second = able(bench, "a", 100, 150), able(bench, "b", 100, 150)
    assert bench.lane_of(first) == bench.lane_of(second), "there is no memory for two lanes"
    first.request()
    first.begin()
    order(bench, first.lease, PAUSE)
    assert requests_to(first) == ["pause"]
    assert first.page.paused
    assert state(first) is SessionState.HOLDING
    assert bench.lane_of(first) is not None, "what it uses inside its iteration still counts"
    second.request()
    first.end()
    first.release()
    assert second.holds_turn
    assert state(first) is SessionState.WAITING, "it has not answered"
    first.answer_paused()
    assert bench.lane_of(first) is None
    assert state(first) is SessionState.PAUSED
    assert bench.turns.memory.table.promised_bytes == 350 * MIB, (
        "its persistent bytes, and all of the other's"
    )


def test_a_paused_job_gets_no_turn_until_it_resumes() -> None:
    bench = GPUBench()
    process = able(bench, "a")
    order(bench, process.lease, PAUSE)
    process.answer_paused()
    process.request()
    bench.clock.advance(100)
    assert not process.holds_turn
    order(bench, process.lease, None)
    assert requests_to(process) == ["pause", "resume"]
    assert not process.page.paused
    assert process.holds_turn, "it had asked meanwhile"
    assert process.channel.sent[-2][0] == "resume", "it knows that it may run before it has the turn"
    assert order_message(process.lease) == ""


def test_offloaded_memory_is_free_for_others_and_restored_when_it_fits() -> None:
    bench = GPUBench(memory_mib=400)
    process = able(bench, "a", 250, 50)
    offload(bench, process)
    assert requests_to(process) == ["pause", "offload"]
    assert state(process) is SessionState.OFFLOADED
    assert not process.lease.in_table
    assert bench.turns.memory.table.promised_bytes == 0
    assert "offloaded by order (a test): 250.0 MiB are on the host" in order_message(process.lease)

    other = able(bench, "b", 250, 50)
    other.request()
    assert other.holds_turn
    process.request()
    order(bench, process.lease, None)
    bench.look_after()
    assert requests_to(process) == ["pause", "offload"], "there is no room to restore to"
    assert state(process) is SessionState.WAITING, "no order is left"
    assert process.lease.offloaded_bytes > 0
    assert "waits for GPU memory to restore" in order_message(process.lease)
    other.release()
    other.die()
    assert requests_to(process) == ["pause", "offload", "restore"]
    assert not process.holds_turn
    assert state(process) is SessionState.WAITING
    process.answer_restored()
    assert process.lease.offloaded_bytes == 0
    assert requests_to(process) == ["pause", "offload", "restore", "resume"]
    assert process.holds_turn
    assert bench.turns.memory.table.promised_bytes == 300 * MIB


def test_the_time_of_moves_is_measured_from_the_command_to_the_answer() -> None:
    bench = GPUBench(memory_mib=4096)
    costs = bench.turns.orders.move_costs
    process = able(bench, "a", 512, 50)
    order(bench, process.lease, OFFLOAD)
    process.answer_paused()
    assert costs.milliseconds_per_gib is None
    bench.clock.advance(0.25)
    process.answer_offloaded()
    assert costs.milliseconds_per_gib == 1000, "the way back is taken to last as long"
    order(bench, process.lease, None)
    bench.clock.advance(0.5)
    process.answer_restored()
    assert costs.milliseconds_per_gib == 1500

    process.answer_restored()  # by itself: nobody knows when it began
    assert costs.milliseconds_per_gib == 1500


def test_memory_is_restored_only_if_covered_beside_running_turns() -> None:
    bench = GPUBench(memory_mib=400)
    process = able(bench, "a", 150, 50)
    offload(bench, process)
    runs = able(bench, "b", 100, 300)
    runs.request()
    runs.begin()
    runs.profile(100, 50)  # it has shrunk, and is still inside an iteration of the size before
    order(bench, process.lease, None)
    assert bench.lane_of(process) is not None
    bench.look_after()
    runs.end()
    assert requests_to(process)[-1] == "restore"


def test_an_offload_that_is_cancelled_before_it_is_done_is_undone() -> None:
    bench = GPUBench()
    process = able(bench, "a")
    order(bench, process.lease, OFFLOAD)
    process.answer_paused()
    assert requests_to(process) == ["pause", "offload"]
    order(bench, process.lease, None)
    process.request()
    assert requests_to(process)[-1] == "restore"
    assert not process.holds_turn, "it may be moving its memory right now"
    process.answer_offloaded()  # it crossed the order to restore
    assert requests_to(process)[-1] == "restore"
    process.answer_restored()
    assert process.holds_turn


def test_a_pause_after_an_offload_leaves_the_memory_where_it_is() -> None:
    bench = GPUBench()
    process = able(bench, "a")
    offload(bench, process)
    order(bench, process.lease, PAUSE)
    bench.look_after()
    assert state(process) is SessionState.OFFLOADED
    assert requests_to(process) == ["pause", "offload"]


@pytest.mark.parametrize("can", [("nothing",), ("pause",)])
def test_a_process_that_cannot_offload_stays_paused_with_a_message(can: tuple[str, ...]) -> None:
    bench = GPUBench()
    process = able(bench, "a", 100, 100, *can)
    order(bench, process.lease, OFFLOAD)
    if "pause" in can:
        process.answer_paused()
    assert state(process) is SessionState.PAUSED
    assert "offload" not in requests_to(process)
    assert "it cannot be offloaded: process 100 cannot move its memory" in order_message(process.lease)
    assert process.lease.in_table, "its memory counts"
    process.request()
    assert not process.holds_turn
    order(bench, process.lease, None)
    assert process.holds_turn


def test_a_process_that_refuses_stays_paused_until_the_next_order() -> None:
    bench = GPUBench()
    process = able(bench, "a")
    order(bench, process.lease, OFFLOAD)
    process.answer_paused()
    bench.turns.orders.refused(process.lease, process.session, "offload", "no room on the host")
    bench.look_after()
    assert state(process) is SessionState.PAUSED
    assert requests_to(process) == ["pause", "offload"]
    assert "refused: no room on the host" in order_message(process.lease)
    assert bench.notes[-1][1] == "OrderRefused"
    order(bench, process.lease, PAUSE)
    order(bench, process.lease, OFFLOAD)
    assert requests_to(process) == ["pause", "offload", "offload"]


def test_a_failed_restore_is_retried() -> None:
    bench = GPUBench()
    process = able(bench, "a")
    offload(bench, process)
    order(bench, process.lease, None)
    bench.turns.orders.refused(process.lease, process.session, "restore", "the device has no room")
    bench.look_after()
    assert requests_to(process).count("restore") == 1
    assert "could not restore: the device has no room" in order_message(process.lease)
    bench.clock.advance(1.0)
    bench.look_after()
    assert requests_to(process).count("restore") == 2
    process.answer_restored()
    assert order_message(process.lease) == ""


def test_all_processes_of_a_container_follow_an_order() -> None:
    bench = GPUBench()
    first = able(bench, "a")
    second = bench.process(first.lease)
    second.session.order_state.capabilities = frozenset({"pause", "offload"})
    second.profile(100, 0)
    first.request()
    second.request()
    order(bench, first.lease, OFFLOAD)
    first.release()
    first.answer_paused()
    assert bench.lane_of(first) is not None, "the other still holds the turn"
    second.release()
    second.answer_paused()
    assert requests_to(first) == requests_to(second) == ["pause", "offload"]
    first.answer_offloaded()
    assert state(first) is SessionState.PAUSED
    assert first.lease.in_table
    second.answer_offloaded()
    assert state(first) is SessionState.OFFLOADED
    order(bench, first.lease, None)
    first.answer_restored()
    first.request()
    assert not first.holds_turn
    second.answer_restored()
    assert first.holds_turn


def test_the_death_of_an_unanswering_process_counts_as_its_answer() -> None:
    bench = GPUBench()
    first = able(bench, "a")
    second = bench.process(first.lease)
    second.session.order_state.capabilities = frozenset({"pause", "offload"})
    second.profile(100, 0)
    order(bench, first.lease, OFFLOAD)
    first.answer_paused()
    second.die()
    assert requests_to(first) == ["pause", "offload"]
    first.answer_offloaded()
    assert state(first) is SessionState.OFFLOADED
    first.die()
    assert not first.lease.offloaded
    assert state(first) is SessionState.LOST


def test_a_process_that_connects_to_a_paused_container_is_paused_before_it_runs() -> None:
    bench = GPUBench()
    lease = bench.container("a")
    order(bench, lease, PAUSE)
    process = bench.process(lease)
    process.session.order_state.capabilities = frozenset({"pause"})
    bench.turns.orders.process_connected(lease, process.session, was_offloaded=False)
    process.request()
    assert requests_to(process) == ["pause"]
    assert not process.holds_turn
    process.answer_paused()
    assert state(process) is SessionState.PAUSED
    order(bench, lease, None)
    assert process.holds_turn


def test_a_process_that_restored_by_itself_counts_again() -> None:
    bench = GPUBench()
    process = able(bench, "a", 250, 50)
    offload(bench, process)
    process.answer_restored()  # without a request, for example because it was told to end
    assert process.lease.in_table
    assert bench.turns.memory.table.promised_bytes >= 250 * MIB
    process.request()
    assert not process.holds_turn, "the order stands"
    assert requests_to(process)[-1] == "offload"


def test_a_process_that_does_not_answer_is_reported_and_loses_its_turn() -> None:
    bench = GPUBench(timeout_seconds=2.0)
    process = able(bench, "a")
    process.request()
    process.begin()
    order(bench, process.lease, PAUSE)
    bench.clock.advance(2.1)
    bench.look_after()
    assert process.asked_to_yield, "it is held back all the same"
    bench.clock.advance(2.1)
    bench.turns.scheduler.revoke_stalled()
    assert not process.holds_turn
    assert "process 100 has not answered pause in time" in order_message(process.lease)
    assert ("a", "OrderNotFollowed", "process 100 has not answered pause in 2 s") in bench.notes
    process.end()
    process.answer_paused()
    assert state(process) is SessionState.PAUSED
    assert order_message(process.lease) == "paused by order (a test)"


def test_a_container_that_ends_while_offloaded_leaves_nothing_behind() -> None:
    bench = GPUBench()
    process = able(bench, "a")
    offload(bench, process)
    bench.turns.remove_container(process.lease.key)
    assert bench.turns.memory.table.tenants == bench.turns.memory.table.waiting == ()
    again = able(bench, "b")
    again.request()
    assert again.holds_turn


def test_a_profile_does_not_let_a_paused_process_run() -> None:
    bench = GPUBench()
    process = able(bench, "a")
    order(bench, process.lease, PAUSE)
    process.answer_paused()
    process.profile(120, 10)
    process.request()
    assert bench.lane_of(process) is None
    assert not process.holds_turn
    assert bench.turns.memory.table.promised_bytes == 120 * MIB


def test_gang_processes_may_catch_up_before_they_pause() -> None:
    bench = GPUBench()
    ahead = able(bench, "a")
    behind = bench.process(ahead.lease)
    behind.session.order_state.capabilities = frozenset({"pause", "offload"})
    behind.profile(100, 0)
    other = able(bench, "b")
    assert bench.lane_of(other) is not None
    order(bench, ahead.lease, PAUSE)
    ahead.answer_paused()
    ahead.request()
    assert not ahead.holds_turn, "it has stopped"
    behind.request()
    assert behind.holds_turn, "it has an iteration to go"
    assert state(behind) is SessionState.HOLDING
    behind.release()
    behind.answer_paused()
    assert state(behind) is SessionState.PAUSED
    order(bench, ahead.lease, None)
    assert ahead.holds_turn, "it had asked meanwhile"


def test_a_paused_container_that_is_removed_gets_no_turn_on_its_way_out() -> None:
    bench = GPUBench()
    first = able(bench, "a")
    lease = first.lease
    second = Process(bench, lease, 999)
    second.session.order_state.capabilities = frozenset({"pause", "offload"})
    order(bench, lease, PAUSE)
    for process in (first, second):
        process.answer_paused()
        process.request()
    turns = lease.counters.turns
    bench.turns.remove_container(lease.key)
    assert lease.counters.turns == turns
    assert requests_to(second) == ["pause"]
    assert not bench.turns.scheduler.memory.pending
    assert not bench.log.turns
