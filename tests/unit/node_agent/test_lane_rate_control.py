"""Shares of a GPU's time across lanes: when lanes run in parallel, and when they take turns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import pytest
from laneway.lanes import RateControl, TenantUse
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.report.metrics import AgentCollector
from laneway.node_agent.report.snapshot import take_snapshot
from laneway.node_agent.turns.lane_rate_control import CONTROL_SECONDS
from laneway.node_agent.turns.pending_releases import MemoryReading
from prometheus_client import CollectorRegistry, generate_latest

from tests.support.node_agent.contended_gpu import STEP_SECONDS, Trainer, train
from tests.support.node_agent.gpu_bench import GPUBench

SHARES = (60, 20, 10, 10)


def tenants(bench: GPUBench, shares: Sequence[int] = SHARES, **options: float) -> list[Trainer]:
    return [
        Trainer(bench.job(f"pod-{number}", 10, 50, percent), **options)
        for number, percent in enumerate(shares)
    ]


@pytest.mark.parametrize("shares", [SHARES, (25, 25, 25, 25), (5, 15)])
def test_lanes_of_a_contended_gpu_divide_its_time_by_shares(shares: tuple[int, ...]) -> None:
    bench = GPUBench()
    trainers = tenants(bench, shares)
    assert len({bench.turns.memory.memory_lane_of(each.process.lease) for each in trainers}) == len(shares)
    train(bench, trainers, 3.0)
    made = train(bench, trainers, 20.0)
    for got, share in zip(made, shares, strict=True):
        assert got >= 0.95 * share / sum(shares), made
    assert sum(made) >= 0.97


def test_jobs_that_compute_for_half_of_their_time_take_turns_in_step() -> None:
    """In parallel, their iterations drift into one another, and take up to twice as long as alone."""
    bench = GPUBench()
    trainers = tenants(bench, (50, 50), iteration_seconds=0.1, gap_seconds=0.1)
    trainers[1].gap_seconds = 0.085
    train(bench, trainers, 15.0)
    made = train(bench, trainers, 60.0)
    for got, alone in zip(made, (0.1 / 0.2, 0.1 / 0.185), strict=True):
        assert got >= 0.85 * alone, made


@pytest.mark.parametrize(("seconds", "missing_iterations"), [(1, 4), (2, 1), (4, 1), (10, 1)])
def test_shares_of_a_contended_gpu_hold_over_any_time(seconds: int, missing_iterations: int) -> None:
    """As far as turns allow: a round of these takes 0.4 s, and a trial of running in parallel delays a turn by an iteration."""
    bench = GPUBench()
    trainers = tenants(bench)
    train(bench, trainers, 3.0)
    made = [train(bench, trainers, 0.02) for _ in range(1500)]
    windows = 50 * seconds
    for number, share in enumerate(SHARES):
        progress = list(accumulate((each[number] / 50 for each in made), initial=0.0))
        worst = min(end - begin for begin, end in zip(progress, progress[windows:], strict=False))
        missing_seconds = min(
            missing_iterations * trainers[number].iteration_seconds, 0.2 * share / 100 * seconds
        )
        assert worst >= share / 100 * seconds - missing_seconds - 1e-9, f"{share} %"


@pytest.mark.parametrize("shares", [SHARES, (25, 25, 25, 25), (40, 30, 20, 10), (10, 60, 20, 10)])
def test_shares_of_a_contended_gpu_hold_over_any_ten_turns(shares: tuple[int, ...]) -> None:
    bench = GPUBench()
    trainers = tenants(bench, shares)
    train(bench, trainers, 3.0)
    made = [0.0] * len(shares)
    begins: list[list[tuple[float, float]]] = [[] for _ in shares]
    turns = [each.process.lease.counters.turns for each in trainers]
    for step in range(6000):
        for number, trainer in enumerate(trainers):
            if trainer.process.lease.counters.turns > turns[number]:
                turns[number] = trainer.process.lease.counters.turns
                begins[number].append((step * STEP_SECONDS, made[number]))
        for number, progress in enumerate(train(bench, trainers, STEP_SECONDS)):
            made[number] += progress * STEP_SECONDS
    for share, each in zip(shares, begins, strict=True):
        worst = min((b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(each, each[10:], strict=False))
        assert worst >= 0.95 * share / 100, f"{share} %"


def test_shares_hold_when_holders_compute_again_that_kept_their_turns() -> None:
    bench = GPUBench()
    trainers = tenants(bench, demand=0.1)
    train(bench, trainers, 5.0)
    for trainer in trainers:
        trainer.done_seconds = 0.0
        if trainer.process.page.inside:
            trainer.process.end()
    bench.clock.advance(10.0)
    assert all(each.process.holds_turn and not each.process.asked_to_yield for each in trainers)
    for trainer in trainers:
        trainer.demand = 1.0
    train(bench, trainers, 3.0)
    made = train(bench, trainers, 20.0)
    for got, share in zip(made, SHARES, strict=True):
        assert got >= 0.95 * share / 100, made


def test_comparisons_do_not_multiply(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison lets turns begin, which starts comparisons: they came five times as often after two minutes."""
    bench = GPUBench()
    observe, compared = RateControl.observe, []

    def counted(control: RateControl, uses: Sequence[TenantUse], now_seconds: float) -> bool:
        compared.append(now_seconds)
        return observe(control, uses, now_seconds)

    monkeypatch.setattr(RateControl, "observe", counted)
    trainers = tenants(bench)
    train(bench, trainers, 30.0)
    compared.clear()
    train(bench, trainers, 10.0)
    assert 10.0 / CONTROL_SECONDS <= len(compared) <= 1.5 * 10.0 / CONTROL_SECONDS


def test_comparing_many_tenants_leaves_the_agent_time_for_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 tenants of a real agent took 8 ms. Compared every 10 ms, they left 160 turns a second of 1,800."""
    bench = GPUBench()
    observe, compared = RateControl.observe, []

    def slow(control: RateControl, uses: Sequence[TenantUse], now_seconds: float) -> bool:
        compared.append(now_seconds)
        bench.clock.spent += 0.02
        return observe(control, uses, now_seconds)

    monkeypatch.setattr(RateControl, "observe", slow)
    train(bench, tenants(bench), 20.0)
    assert len(compared) > 50
    assert 0.02 * len(compared) <= 0.1 * 20.0


def test_other_policies_promise_no_shares_and_leave_lanes_in_parallel() -> None:
    bench = GPUBench(policy="srtf")
    trainers = tenants(bench)
    assert train(bench, trainers, 5.0) == pytest.approx([0.25] * 4, abs=0.01)
    assert not bench.turns.memory.sharing_turns


def test_lanes_that_do_not_slow_each_other_run_in_parallel() -> None:
    bench = GPUBench()
    trainers = tenants(bench, demand=0.2)
    train(bench, trainers, 2.0)
    assert sum(train(bench, trainers, 10.0)) >= 3.9


def test_one_active_tenant_keeps_its_turn() -> None:
    bench = GPUBench()
    tenants(bench)
    (alone,) = tenants(bench, (60,))
    train(bench, [alone], 5.0)
    assert alone.process.lease.counters.turns == 1


def test_a_lane_keeps_one_turn_and_its_memory_while_lanes_take_turns() -> None:
    bench = GPUBench()
    trainers = tenants(bench)
    for _ in range(200):
        train(bench, trainers, 0.05)
        turns = bench.turns.scheduler.turns.values()
        lanes = [bench.turns.memory.memory_lane_of(turn.lease) for turn in turns]
        assert len(lanes) == len(set(lanes))
        promised = bench.turns.memory.table.promised_bytes
        assert promised <= bench.turns.memory.table.capacity_bytes


def test_a_job_that_spans_gpus_waits_for_no_other_lane() -> None:
    """Its workers wait for each other inside an iteration."""
    bench = GPUBench()
    gang = bench.process(bench.container("gang-0", 50, spans_gpus=True))
    gang.profile(10, 50)
    trainers = [Trainer(gang), *tenants(bench, (25, 25))]
    train(bench, trainers, 10.0)
    assert gang.lease.counters.turns == 1
    assert not gang.asked_to_yield


@pytest.mark.parametrize(("reported_seconds", "held_up_seconds"), [(0.02, 2.0), (1e9, 7.0)])
def test_a_holder_that_does_not_yield_holds_up_other_lanes_only_for_a_while(
    reported_seconds: float, held_up_seconds: float
) -> None:
    bench = GPUBench()
    stalled, *others = tenants(bench)
    stalled.process.profile(10, 50, reported_seconds)
    train(bench, [stalled, *others], 3.0)
    while not stalled.process.page.inside:
        train(bench, [stalled, *others], 0.005)
    stalled.stalls = True
    train(bench, [stalled, *others], held_up_seconds)
    made = train(bench, [stalled, *others], 5.0)
    assert min(made[1:]) > 0.04, made


def test_yielding_late_again_and_again_gains_no_more_than_a_share() -> None:
    """It releases just before its turn would be revoked, and computes beside the others until then."""
    bench = GPUBench(timeout_seconds=5)
    late, honest = tenants(bench, (10, 90))
    train(bench, [late, honest], 3.0)
    before = [each.progress_seconds for each in (late, honest)]
    for _ in range(2000):
        asked_seconds = asked_at(bench, late)
        late.stalls = asked_seconds is None or bench.clock.now < asked_seconds + 4.5
        train(bench, [late, honest], 0.05)
        bench.turns.scheduler.revoke_stalled()
    made = [(each.progress_seconds - done) / 100 for each, done in zip((late, honest), before, strict=True)]
    assert made[0] <= 0.12, made
    assert made[1] >= 0.8, made


@pytest.mark.parametrize("counts_iterations", [False, True])
def test_a_holder_that_says_that_it_is_idle_gets_no_more_than_its_share(counts_iterations: bool) -> None:
    """It computes whenever it has a turn, and never writes on its page that it is inside an iteration."""
    bench = GPUBench()
    honest, ghost = tenants(bench, (90, 10))
    made = [0.0, 0.0]
    for step in range(8000):
        honest.continue_training()
        if not ghost.process.holds_turn and not ghost.process.session.requested:
            ghost.process.request()
        speed = 1.0 / max(1, honest.process.page.inside + ghost.process.holds_turn)
        if ghost.process.holds_turn:
            made[1] += speed * STEP_SECONDS
            ghost.process.page.iterations += counts_iterations
        inside = honest.process.page.inside
        bench.clock.advance(STEP_SECONDS)
        if inside:
            honest.step(speed)
        if ghost.process.asked_to_yield:
            ghost.process.release()
        if step % 200 == 0:  # a reading each second
            both = frozenset({honest.process.lease.key, ghost.process.lease.key})
            bench.turns.readings.record(MemoryReading(bench.clock.now, computing=both))
        if step == 2000:
            made = [-honest.progress_seconds, 0.0]
    made[0] += honest.progress_seconds
    assert made[0] >= 0.85 * 6000 * STEP_SECONDS, made
    assert made[1] <= 0.15 * 6000 * STEP_SECONDS, made


def asked_at(bench: GPUBench, trainer: Trainer) -> float | None:
    """Return when a holder was asked to yield; None while it was not."""
    turn = bench.turns.scheduler.turns.get(trainer.process.lease)
    return None if turn is None else turn.yield_requested_seconds


def test_the_progress_of_contending_sessions_is_reported() -> None:
    bench = GPUBench()
    trainers = tenants(bench, (50, 50))
    train(bench, trainers, 10.0)
    ratios = bench.turns.rate_control.progress_ratios()
    assert [ratios[each.process.lease.key] for each in trainers] == pytest.approx([0.5, 0.5], abs=0.1)
    snapshot = take_snapshot(bench.turns, bench.clock.monotonic())
    registry = CollectorRegistry()
    registry.register(AgentCollector("n1", lambda: [(snapshot, GPUHealth())]))
    assert 'laneway_session_progress_ratio{gpu="GPU-test",namespace="default",node="n1",pod="pod-1"} 0.' in (
        generate_latest(registry).decode()
    )
    trainers[1].process.die()
    train(bench, trainers[:1], 3.0)
    assert bench.turns.rate_control.progress_ratios() == {}
