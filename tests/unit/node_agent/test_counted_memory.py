"""What the lane table counts of a container: its template's profile, its measurements, its frameworks'
memory."""

from __future__ import annotations

import pytest
from laneway.api.template_profile import TemplateProfile
from laneway.node_agent.recovery.state import gpu_state, sizes_of
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.pending_releases import MemoryReading
from laneway.node_agent.turns.session import NANOSECONDS, Sizes

from tests.support.node_agent.gpu_bench import MIB, GPUBench, Process


def of_template(bench: GPUBench, pod: str, persistent: int, ephemeral: int, percent: int = 100) -> Lease:
    """A container whose template has a profile."""
    lease = bench.container(pod, percent)
    profile = TemplateProfile(persistent_bytes=persistent * MIB, ephemeral_bytes=ephemeral * MIB)
    return bench.turns.allocate(lease.record.model_copy(update={"profile": profile}))


def promised_mib(bench: GPUBench) -> float:
    return bench.turns.memory.table.promised_bytes / MIB


def test_a_template_that_claims_to_need_no_memory_counts_as_none() -> None:
    bench = GPUBench()
    claims = bench.process(of_template(bench, "claims", 0, 0, percent=40))
    claims.request()
    assert promised_mib(bench) == pytest.approx(400)


def real(process: Process, reserve_mib: int = 300) -> Process:
    """Let a process be one with a framework on a real GPU."""
    process.session.framework_reserve_bytes = reserve_mib * MIB
    return process


def show(bench: GPUBench, by_pid: dict[int, int], **mib_by_pod: int) -> None:
    """Let the agent read the driver."""
    bench.clock.advance(2)
    keys = {lease.record.pod: key for key, lease in bench.turns.leases.items()}
    by_container = {keys[pod]: mib * MIB for pod, mib in mib_by_pod.items()}
    bench.turns.readings.record(MemoryReading(bench.clock.now, by_pid, by_container))


# From the allocation on


def test_a_container_counts_with_its_quota_before_a_process_says_hello() -> None:
    bench = GPUBench()
    silent = bench.container("silent", 70)
    assert promised_mib(bench) == 700
    other = bench.process(bench.container("other", 60))
    assert bench.lane_of(other) is None, "the memory of the silent container is promised"
    bench.turns.remove_container(silent.key)
    assert bench.lane_of(other) is not None
    assert promised_mib(bench) == 600


def test_a_container_counts_with_its_quota_again_when_its_last_process_has_ended() -> None:
    bench = GPUBench()
    first = bench.job("a", 100, 200, percent=60)
    assert promised_mib(bench) == 300
    first.die()
    assert promised_mib(bench) == 600
    bench.turns.remove_container(first.lease.key)
    assert promised_mib(bench) == 0


def test_a_container_whose_quota_is_taken_when_its_process_ends_waits_and_is_not_stopped() -> None:
    bench = GPUBench()
    first = bench.job("a", 100, 200, percent=60)
    bench.job("b", 100, 500, percent=100)
    first.die()
    assert not first.lease.uncovered
    assert promised_mib(bench) == 600
    again = bench.process(first.lease)
    assert bench.lane_of(again) is None


# What the driver and the memory account show


def test_a_process_that_reports_no_memory_counts_with_what_the_driver_shows() -> None:
    bench = GPUBench()
    bench.job("liar", 0, 0, percent=60)
    assert promised_mib(bench) == 0
    for _ in range(2):
        show(bench, {}, liar=500)
    assert promised_mib(bench) == 500
    other = bench.process(bench.container("other", 60))
    assert bench.lane_of(other) is None
    for _ in range(2):
        show(bench, {}, liar=900)
    assert promised_mib(bench) == 600, "beyond its quota the watchdog holds it"


def test_memory_that_a_process_holds_in_its_turns_counts_as_its_lanes() -> None:
    bench = GPUBench()
    liar = bench.job("liar", 0, 0, percent=80)
    liar.request()
    show(bench, {}, liar=300)
    assert promised_mib(bench) == 300
    liar.release()
    for _ in range(3):
        show(bench, {}, liar=0)
    assert promised_mib(bench) == 300, "its next turn may need it again"
    bench.clock.advance(60)
    show(bench, {}, liar=0)
    assert promised_mib(bench) == 0


def test_a_holder_beyond_its_sizes_returns_when_it_has_released_the_memory() -> None:
    bench = GPUBench()
    bench.container("silent", 50)
    caches = bench.job("caches", 100, 300, percent=100)
    caches.request()
    show(bench, {}, caches=800)
    assert bench.lane_of(caches) is None, "it uses memory that is promised to another container"
    assert caches.asked_to_yield
    caches.release()
    assert bench.turns.readings.awaited
    show(bench, {}, caches=100)
    assert bench.lane_of(caches) is not None
    assert not bench.turns.readings.awaited


def test_memory_of_a_container_that_waits_for_a_lane_counts() -> None:
    bench = GPUBench()
    bench.container("silent", 70)
    waits = bench.process(bench.container("waits", 60))
    for _ in range(2):
        show(bench, {}, waits=200)
    assert promised_mib(bench) == 900
    assert not waits.lease.uncovered
    for _ in range(2):
        show(bench, {}, waits=400)
    assert waits.lease.uncovered.startswith("gets no turns and will be stopped if this persists")
    assert promised_mib(bench) == 900
    for _ in range(2):
        show(bench, {}, waits=0)
    assert not waits.lease.uncovered


def test_a_memory_account_counts_without_a_reading() -> None:
    bench = GPUBench()
    liar = bench.job("liar", 0, 0, percent=60)
    liar.lease.account.enter(liar.session.pid)
    assert liar.lease.account.reserve(liar.session.pid, 400 * MIB)
    bench.turns.readings.count_accounts()
    assert promised_mib(bench) == 400


# The template's profile


def test_an_unknown_container_counts_with_its_quota_until_it_is_measured() -> None:
    bench = GPUBench()
    first = bench.process(bench.container("first", 60))
    second = bench.process(bench.container("second", 60))
    assert promised_mib(bench) == 600
    assert bench.lane_of(second) is None, "60 % and 60 % do not fit, and nothing is known of either"
    first.request()
    first.profile(100, 200)
    assert bench.lane_of(second) is not None


def test_a_container_of_a_known_template_counts_with_its_profile_from_the_start() -> None:
    bench = GPUBench()
    first, second = (bench.process(of_template(bench, pod, 100, 200)) for pod in ("first", "second"))
    assert promised_mib(bench) == 600
    assert {bench.lane_of(first), bench.lane_of(second)} == {0, 1}


def test_a_container_counts_with_the_larger_of_template_and_measurement() -> None:
    bench = GPUBench()
    process = bench.process(of_template(bench, "a", 100, 200))
    process.request()
    process.profile(20, 30)
    assert promised_mib(bench) == 300, "the first iterations need not be the largest"
    process.profile(150, 30)
    assert promised_mib(bench) == 350
    process.profile(20, 300)
    assert promised_mib(bench) == 400
    assert process.lease.sizes == Sizes(20 * MIB, 300 * MIB, iteration_seconds=0.05), (
        "the reported sizes are the measured ones"
    )


def test_growth_beyond_the_template_is_handled_like_any_other() -> None:
    bench = GPUBench()
    first, second = (bench.process(of_template(bench, pod, 100, 200)) for pod in ("first", "second"))
    first.profile(100, 700)
    assert bench.lane_of(first) == bench.lane_of(second), "700 covers 200 where they take turns"


def test_a_template_profile_may_arrive_after_the_container() -> None:
    bench = GPUBench()
    process = bench.process(bench.container("a", 100))
    assert promised_mib(bench) == 1000
    profile = TemplateProfile(persistent_bytes=100 * MIB, ephemeral_bytes=200 * MIB)
    bench.turns.allocate(process.lease.record.model_copy(update={"profile": profile}))
    assert promised_mib(bench) == 300


# Further processes of a container


def test_a_second_process_counts_from_its_first_request_on() -> None:
    bench = GPUBench()
    first = bench.job("a", 100, 200, percent=60)
    second = bench.process(first.lease)
    assert promised_mib(bench) == 300, "it has not used any memory"
    second.request()
    assert promised_mib(bench) == 600, "nothing is known of it, so the whole quota counts"
    second.profile(50, 60)
    assert promised_mib(bench) == 410


def test_if_the_memory_of_a_second_process_is_not_covered_the_container_gets_no_turn() -> None:
    bench = GPUBench()
    other = bench.job("other", 300, 300, percent=100)
    first = bench.job("a", 100, 200, percent=80)
    second = bench.process(first.lease)
    second.request()
    assert not second.holds_turn
    assert first.lease.uncovered
    other.die()
    assert second.holds_turn
    assert not first.lease.uncovered


def test_a_process_that_ends_counts_no_more() -> None:
    bench = GPUBench()
    first = bench.job("a", 100, 200)
    second = bench.process(first.lease)
    second.request()
    second.profile(50, 60)
    second.die()
    assert promised_mib(bench) == 300


# The framework's own memory


def test_the_reserve_counts_on_a_real_gpu_until_the_framework_is_measured() -> None:
    bench = GPUBench()
    process = real(bench.process(bench.container("a", 100)))
    process.request()
    process.profile(100, 200)
    assert promised_mib(bench) == 600
    assert process.lease.sizes is not None
    assert process.lease.sizes.framework_bytes == 300 * MIB, "the planner is to count the same"
    second = real(bench.process(process.lease))
    second.request()
    second.profile(10, 20)
    assert promised_mib(bench) == 930, "each process has a framework of its own"


def test_driver_memory_beyond_the_tensors_replaces_the_reserve() -> None:
    bench = GPUBench()
    process = real(bench.process(bench.container("a", 100)))
    process.request()
    process.profile(100, 200)
    process.begin()
    process.page.held_bytes = 100 * MIB
    show(bench, {process.session.pid: 900 * MIB})
    assert promised_mib(bench) == 600, "inside an iteration the allocator may have cached anything"
    process.end()
    process.release()
    show(bench, {process.session.pid: 900 * MIB})
    assert promised_mib(bench) == 600, "the look may have been before the release"
    show(bench, {process.session.pid: 550 * MIB, 4711: MIB})
    assert promised_mib(bench) == 750
    assert process.lease.last_sizes is not None
    assert process.lease.last_sizes.framework_bytes == 450 * MIB
    changes = bench.changes
    show(bench, {process.session.pid: 555 * MIB})
    assert promised_mib(bench) == 750, "a few per cent are no change"
    assert bench.changes == changes


def test_a_simulated_gpu_has_no_framework() -> None:
    bench = GPUBench()
    process = bench.job("a", 100, 200)
    show(bench, {process.session.pid: 900 * MIB})
    assert promised_mib(bench) == 300


def test_the_reserve_is_for_processes_on_real_gpus() -> None:
    turns = GPUBench(framework_mib=300).turns
    assert turns.framework_reserve_bytes("cuda") == 300 * MIB
    assert turns.framework_reserve_bytes("cpu") == 0
    assert turns.framework_reserve_bytes("") == 0


# Service, by share, attained and remaining


def served(bench: GPUBench, processes: list[Process], seconds: float) -> list[float]:
    """Let processes that always want turns run; return the service that each had."""
    before = [process.page.busy_ns for process in processes]
    for process in processes:
        process.request()
    until = bench.clock.now + seconds
    while bench.clock.now < until:
        holder = next(process for process in processes if process.holds_turn)
        holder.begin()
        bench.clock.advance(0.02)
        holder.end()
        if holder.asked_to_yield:
            holder.release()
            holder.request()
    return [
        (process.page.busy_ns - start) / NANOSECONDS for process, start in zip(processes, before, strict=True)
    ]


def test_service_is_proportional_to_share() -> None:
    bench = GPUBench(max_lanes=1)
    large, small = bench.job("large", 100, 300, percent=60), bench.job("small", 100, 300, percent=20)
    had = served(bench, [large, small], 120)
    assert had[0] / had[1] == pytest.approx(3, rel=0.03)


def after_a_stall(idle_seconds: float) -> list[float]:
    """Return the service that `other` and `stalled` get within 4 s.

    Before that, `stalled` holds the lane for 5 s while `other` waits, and then both are idle for `idle_seconds`.
    """
    bench = GPUBench(max_lanes=1, timeout_seconds=60)
    stalled, other = bench.job("stalled", 100, 300), bench.job("other", 100, 300)
    stalled.request()
    other.request()
    stalled.begin()
    bench.clock.advance(5)
    for process in (stalled, other):
        process.end()
        process.release()
    assert not stalled.lease.wants_turn
    assert not other.lease.wants_turn
    bench.clock.advance(idle_seconds)
    return served(bench, [other, stalled], 4)


def test_a_session_pays_after_a_gap_for_keeping_others_waiting() -> None:
    assert after_a_stall(0.5)[0] > 3.5


def test_accounts_restart_in_a_lane_that_was_unused_for_a_while() -> None:
    assert after_a_stall(2.0) == pytest.approx([2, 2], abs=0.2)


def test_srtf_runs_the_shortest_reported_remaining_time() -> None:
    bench = GPUBench(max_lanes=1, policy="srtf")
    long, short = bench.job("long", 100, 300), bench.job("short", 100, 300)
    for process, remaining_seconds in ((long, 1000.0), (short, 5.0)):
        sizes = Sizes(100 * MIB, 300 * MIB, remaining_seconds=remaining_seconds)
        bench.turns.measure(process.lease, process.session, sizes)
    had = served(bench, [long, short], 4)
    assert had[1] > 3.5
    short.release()
    assert short.lease.remaining_seconds() == pytest.approx(5 - had[1], abs=0.3)


def test_las_runs_the_least_attained_service_across_lanes() -> None:
    bench = GPUBench(max_lanes=1, policy="las", policy_parameters={"thresholds_seconds": (5.0,)})
    old = bench.job("old", 100, 300)
    served(bench, [old], 10)
    new = bench.job("new", 100, 300)
    had = served(bench, [old, new], 4)
    assert had[1] > 3.5, "it is in a higher queue than the job that has had 10 s"
    new.die()
    crowd = bench.job("crowd", 100, 700)
    assert old.lease.attained_seconds >= 10
    had = served(bench, [old, crowd], 4)
    assert had[1] > 3.5


# Over a restart of the agent


def test_measurements_of_each_process_are_saved() -> None:
    bench = GPUBench()
    process = real(bench.process(bench.container("a", 100)), 250)
    process.request()
    process.profile(100, 200)
    process.session.framework_seen_bytes = 7 * MIB
    (lease,) = gpu_state(bench.turns).leases
    (remembered,) = lease.processes
    assert sizes_of(remembered.sizes) == process.session.sizes
    assert remembered.framework_seen_bytes == 7 * MIB
    assert remembered.framework_reserve_bytes == 250 * MIB


def test_a_save_does_not_look_at_the_processes_of_accounts() -> None:
    """It runs on the loop's thread, and one container may have hundreds of them. So these need not exist."""
    bench = GPUBench()
    lease = bench.container("a", 100)
    for pid in (5_000_001, 5_000_002):
        lease.account.enter(pid, start_ticks=pid * 3)
    (account,) = gpu_state(bench.turns).accounts
    assert [(process.pid, process.start_ticks) for process in account.processes] == [
        (5_000_001, 15_000_003),
        (5_000_002, 15_000_006),
    ]


# Memory that is kept between turns


def a_turn(process: Process) -> None:
    process.request()
    process.begin()
    process.end()
    process.release()


def test_a_cache_is_kept_once_the_framework_was_measured_without_one() -> None:
    bench = GPUBench()
    process = real(bench.process(bench.container("a", 100)))
    process.profile(100, 200)
    process.page.held_bytes = 100 * MIB
    a_turn(process)
    assert not process.page.kept_memory
    for _ in range(2):
        show(bench, {process.session.pid: 550 * MIB})
    a_turn(process)
    assert process.page.kept_memory


def test_a_kept_cache_does_not_count_as_persistent_memory() -> None:
    bench = GPUBench()
    process = bench.job("a", 100, 200)
    process.page.held_bytes = 100 * MIB
    a_turn(process)
    assert process.page.kept_memory
    for _ in range(3):
        show(bench, {process.session.pid: 280 * MIB}, a=280)
    other = bench.job("b", 600, 200)
    assert bench.lane_of(other) is not None, "the cache is given back when the other needs the memory"
    other.request()
    process.free_memory()
    show(bench, {process.session.pid: 280 * MIB}, a=280)
    assert not other.holds_turn, "what it says does not count as long as the driver shows more"
    show(bench, {process.session.pid: 100 * MIB}, a=100)
    assert other.holds_turn
