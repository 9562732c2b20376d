"""Lanes of one GPU as their tenants come, grow and leave, and what that does to turns."""

from __future__ import annotations

import pytest
from laneway.api.gpu_node import SessionState
from laneway.node_agent.report.snapshot import take_snapshot

from tests.support.node_agent.gpu_bench import MIB, OFFERED_PERCENT, GPUBench, Process


def message_of(bench: GPUBench, process: Process) -> str:
    snapshot = take_snapshot(bench.turns, bench.clock.now)
    return next(lease.message for lease in snapshot.leases if lease.record.key == process.lease.key)


def test_turns_of_different_lanes_run_side_by_side() -> None:
    bench = GPUBench()
    first, second = bench.job("a", 100, 300), bench.job("b", 100, 300)
    assert bench.lane_of(first) != bench.lane_of(second)
    first.request()
    second.request()
    assert first.holds_turn
    assert second.holds_turn


def test_an_unprofiled_session_waits_for_memory_and_names_the_holder() -> None:
    bench = GPUBench()
    first = bench.process(bench.container("first", 100))
    second = bench.process(bench.container("second", 100))
    first.request()
    second.request()
    assert first.holds_turn
    assert not second.holds_turn
    assert "default/first" in message_of(bench, second)
    assert first.lease.key not in message_of(bench, second), "people know pods, not keys"


def test_a_session_is_not_told_the_names_of_pods_of_other_namespaces() -> None:
    bench = GPUBench()
    first = bench.process(bench.container("first", 100))
    second = bench.process(bench.container("second", 100, namespace="others"))
    first.request()
    second.request()
    message = message_of(bench, second)
    assert "a job of another namespace counts with the full share until profiled" in message
    assert "first" not in message


def test_a_profile_frees_memory_for_waiting_sessions() -> None:
    bench = GPUBench()
    first = bench.process(bench.container("first", 100))
    second = bench.process(bench.container("second", 60))
    first.request()
    second.request()
    assert not second.holds_turn
    first.profile(100, 200)
    assert second.holds_turn, "600 MiB are free besides the 300 of the first"
    assert message_of(bench, second) == ""


def test_two_busy_lanes_that_merge_grant_nothing_until_both_have_released() -> None:
    bench = GPUBench()
    first, second = bench.job("a", 100, 300), bench.job("b", 100, 300)
    for process in (first, second):
        process.request()
        process.begin()
    second.profile(100, 600)
    assert bench.lane_of(first) == bench.lane_of(second), "100+100+300+600 is more than there is"
    assert first.asked_to_yield
    assert second.asked_to_yield
    first.end()
    first.release()
    first.request()
    assert not first.holds_turn
    second.end()
    second.release()
    assert first.holds_turn


def test_memory_of_a_running_turn_is_not_given_away() -> None:
    bench = GPUBench()
    first, second = bench.job("a", 50, 300), bench.job("b", 50, 500)
    third = bench.job("c", 50, 500)
    assert bench.lane_of(third) == bench.lane_of(second), "no memory for a third lane"
    for process in (first, second, third):
        process.request()
    assert first.holds_turn
    assert second.holds_turn
    first.begin()
    second.begin()
    # The second shrinks, so the third gets a lane of its own, but the second's turn continues in the old one.
    second.profile(50, 10)
    assert bench.lane_of(third) != bench.lane_of(second)
    running = sum(
        {"a": 300, "b": 10, "c": 500}[p.lease.record.pod] for p in (first, second, third) if p.holds_turn
    )
    assert running + 150 <= 1000


def test_an_exclusive_tenant_waits_for_an_empty_gpu_and_has_it_alone() -> None:
    bench = GPUBench()
    shared = bench.job("shared", 10, 10)
    alone = bench.process(bench.container("alone", OFFERED_PERCENT, exclusive=True))
    alone.request()
    assert not alone.holds_turn
    assert "needs the GPU exclusively" in message_of(bench, alone)
    shared.die()
    assert alone.holds_turn
    late = bench.process(bench.container("late", 10))
    late.request()
    assert not late.holds_turn


@pytest.mark.parametrize("percent", [1, 100, OFFERED_PERCENT - 1])
def test_who_lacks_an_id_of_the_gpu_does_not_keep_the_others_out(percent: int) -> None:
    """Whatever its record says: another container holds that id."""
    bench = GPUBench()
    claims = bench.process(bench.container("claims", percent, exclusive=True))
    claims.profile(1, 1)
    job = bench.process(bench.container("job", 90))
    job.request()
    assert job.holds_turn


def test_two_jobs_that_span_gpus_never_share_a_lane() -> None:
    bench = GPUBench(max_lanes=2)
    gangs = [bench.process(bench.container(f"gang-{number}", 50, spans_gpus=True)) for number in range(2)]
    for gang in gangs:
        gang.profile(10, 10)
    assert bench.lane_of(gangs[0]) != bench.lane_of(gangs[1])


def test_processes_of_one_container_share_its_turn() -> None:
    bench = GPUBench(max_lanes=1)
    lease = bench.container("pair", 50)
    first, second = bench.process(lease), bench.process(lease)
    other = bench.process(bench.container("other", 50))
    first.request()
    second.request()
    assert first.page.turn == second.page.turn == 1
    first.begin()
    second.begin()
    other.request()
    bench.clock.advance(0.2)
    assert first.asked_to_yield
    assert second.asked_to_yield
    first.end()
    first.release()
    assert not other.holds_turn, "the second process is still inside"
    second.end()
    second.release()
    assert other.holds_turn


def test_a_process_rejoins_the_turn_for_the_iteration_its_sibling_waits_in() -> None:
    bench = GPUBench(max_lanes=1)
    lease = bench.container("ranks", 50)
    behind, ahead = bench.process(lease), bench.process(lease)
    other = bench.process(bench.container("other", 50))
    for rank in (behind, ahead):
        rank.request()
        rank.begin()
    other.request()
    ahead.end()
    ahead.begin()  # it has not seen the waiting session, and waits for the other rank inside the iteration
    bench.clock.advance(0.2)
    assert behind.asked_to_yield
    behind.end()
    behind.release()
    assert not behind.holds_turn
    behind.request()
    assert behind.holds_turn
    assert behind.asked_to_yield, "for this iteration only"
    behind.begin()
    behind.end()
    behind.release()
    behind.request()
    assert not behind.holds_turn, "the other rank is in an iteration that this one has done"
    ahead.end()
    ahead.release()
    assert other.holds_turn


def test_launch_gates_of_one_container_do_not_prolong_their_turn_for_one_another() -> None:
    bench = GPUBench(max_lanes=1)
    lease = bench.container("pair", 50)
    gates = [bench.process(lease), bench.process(lease)]
    other = bench.process(bench.container("other", 50))
    for gate in gates:
        gate.session.has_iterations = False
        gate.request()
        gate.begin()
    other.request()
    bench.clock.advance(0.2)
    gates[0].release()
    gates[0].request()
    assert not gates[0].holds_turn, "its sibling waits for its own work only"
    gates[1].release()
    assert other.holds_turn


def test_memory_of_a_lost_process_counts_until_it_ends() -> None:
    bench = GPUBench()
    first = bench.process(bench.container("first", 100))
    second = bench.process(bench.container("second", 100))
    first.request()
    second.request()
    first.disconnect()
    assert not second.holds_turn
    assert first.lease.state(holds_turn=False) is SessionState.LOST
    assert "its memory counts" in message_of(bench, first)
    bench.turns.process_ended(first.lease, first.session)
    assert second.holds_turn


def test_uncovered_growth_costs_only_the_grower_its_turns() -> None:
    bench = GPUBench()
    grower, other = bench.job("grower", 100, 100), bench.job("other", 700, 100)
    grower.request()
    grower.begin()
    other.request()
    grower.profile(500, 100)
    assert grower.asked_to_yield
    grower.end()
    grower.release()
    grower.request()
    assert not grower.holds_turn
    assert other.holds_turn
    assert "will be stopped" in message_of(bench, grower)
    assert [note[:2] for note in bench.notes] == [("grower", "MemoryNotCovered")]
    other.die()
    assert grower.holds_turn, "with the memory back, it goes on"


def test_figures_of_an_ended_container_are_kept_for_a_while() -> None:
    bench = GPUBench()
    process = bench.job("gone", 100, 300)
    process.request()
    process.begin()
    bench.clock.advance(0.5)
    process.end()
    bench.turns.remove_container(process.lease.key)
    (ended,) = take_snapshot(bench.turns, bench.clock.now).leases
    assert ended.state is SessionState.ENDED
    assert (ended.iterations, ended.turns) == (1, 1)
    assert ended.sizes is not None
    assert ended.sizes.persistent_bytes == 100 * MIB
    bench.clock.advance(61)
    bench.turns.forget_ended(60)
    assert take_snapshot(bench.turns, bench.clock.now).leases == ()


def test_the_next_container_with_the_same_ids_replaces_the_ended_one() -> None:
    bench = GPUBench()
    process = bench.job("gone", 100, 300)
    record = process.lease.record
    bench.turns.remove_container(record.key)
    bench.turns.allocate(record.model_copy(update={"pod": "next"}))
    (lease,) = take_snapshot(bench.turns, bench.clock.now).leases
    assert lease.record.pod == "next"
    assert lease.state is SessionState.ALLOCATED


def test_a_container_with_waiting_and_holding_processes_can_be_removed() -> None:
    bench = GPUBench(max_lanes=1)
    lease = bench.container("pair", 50)
    first, second = bench.process(lease), bench.process(lease)
    other = bench.process(bench.container("other", 50))
    first.request()
    first.begin()
    other.request()
    bench.clock.advance(0.2)
    assert first.asked_to_yield
    second.request()
    bench.turns.remove_container(lease.key)
    assert other.holds_turn
    assert [turn.end for turn in bench.log.turns] == ["died"]


def test_a_gang_whose_span_is_learned_late_leaves_the_lane_of_another_gang() -> None:
    bench = GPUBench()
    known = bench.process(bench.container("known", 100, spans_gpus=True))
    known.profile(100, 500)
    late = bench.job("late", 100, 500)
    assert bench.lane_of(late) == bench.lane_of(known)
    late.request()
    assert late.holds_turn
    late.begin()
    bench.turns.allocate(late.lease.record.model_copy(update={"spans_gpus": True}))
    assert bench.lane_of(late) is None
    assert late.asked_to_yield
    late.end()
    late.release()
    late.request()
    assert not late.holds_turn
    assert "lost its lane and gets no turns" in message_of(bench, late)
    assert bench.turns.memory.table.promised_bytes == (100 + 500 + 100) * MIB, "its memory goes on counting"
