"""A holder is told beforehand when its quantum will be over: it leaves by itself, and the agent is not woken up for that."""

from __future__ import annotations

from laneway.node_agent.turns.session import NANOSECONDS

from tests.unit.node_agent.gpu_bench import GPUBench, Process


def contended(policy: str = "fair", quantum_seconds: float = 0.004) -> tuple[GPUBench, Process, Process]:
    """A lane whose holder is inside an iteration while another one waits."""
    bench = GPUBench(max_lanes=1, policy=policy, quantum_seconds=quantum_seconds)
    holder, other = bench.job("holder", 10, 30), bench.job("other", 10, 30)
    holder.request()
    holder.begin()
    bench.clock.advance(0.001)
    other.request()
    return bench, holder, other


def release(process: Process) -> None:
    process.bench.turns.giver.release(process.hold, process.session, process.page.turn, 1, 0.0, True)


def test_the_page_says_when_the_quantum_ends() -> None:
    bench, holder, _ = contended()
    assert holder.page.yields_from_ns == round((bench.clock.now - 0.001 + 0.004) * NANOSECONDS)
    assert not holder.asked_to_yield, "not yet"
    bench.clock.advance(0.0035)
    assert holder.asked_to_yield
    assert ("yield", 1) not in holder.line.sent, "no packet was needed"


def test_who_leaves_in_time_hands_over_and_the_release_is_paid_for() -> None:
    bench, holder, other = contended()
    bench.clock.advance(0.0035)
    holder.end()
    release(holder)
    assert other.holds
    assert ("excuse",) in holder.line.sent
    assert holder.hold.overstayed_seconds < 0.001
    assert other.page.yields_from_ns > bench.clock.now * NANOSECONDS, "the next one is told at once"


def test_who_gives_its_turn_back_before_its_time_pays_for_that_itself() -> None:
    _, holder, other = contended()
    holder.end()
    release(holder)
    assert other.holds
    assert ("excuse",) not in holder.line.sent


def test_who_does_not_leave_in_time_is_asked() -> None:
    bench, holder, _ = contended()
    bench.clock.advance(0.02)
    assert ("yield", 1) in holder.line.sent
    holder.end()
    release(holder)
    assert holder.hold.overstayed_seconds > 0.009


def test_an_idle_holder_is_asked_before_its_time() -> None:
    bench, holder, other = contended(quantum_seconds=1.0)
    holder.end()
    bench.clock.advance(0.01)
    assert ("yield", 1) in holder.line.sent
    release(holder)
    assert other.holds


def test_whom_the_policy_prefers_is_told_nothing() -> None:
    bench, holder, other = contended(policy="pack")
    assert holder.page.yields_from_ns == 0, "PACK goes on with who came first"
    bench.clock.advance(0.05)
    assert not holder.asked_to_yield
    assert not other.holds


def test_processes_of_one_container_leave_together_when_they_are_asked() -> None:
    """Each at a boundary of its own, they would come back for one another and never be out at the same time."""
    bench = GPUBench(max_lanes=1, quantum_seconds=0.004)
    hold = bench.container("ranks")
    ranks = [bench.process(hold), bench.process(hold)]
    other = bench.job("other", 10, 30)
    for rank in ranks:
        rank.profile(10, 30)
        rank.request()
        rank.begin()
    other.request()
    assert [rank.page.yields_from_ns for rank in ranks] == [0, 0]
    bench.clock.advance(0.02)
    assert all(rank.asked_to_yield for rank in ranks)
