"""When the engine lists everything, and what it forgets while another replica leads."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from laneway.operator import engine as engine_module
from laneway.operator.cycle.cycle import Cycle, CycleResult
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.engine import Engine
from laneway.operator.execute.garbage_collector import GarbageCollector
from laneway.operator.execute.writer import Writer
from laneway.operator.metrics import Gauges, Metrics
from laneway.operator.namespace_metrics import KEPT_SECONDS
from laneway.operator.pacing import MISSED_DELETIONS_SECONDS
from laneway.operator.state.cache import ClusterCache
from laneway.operator.watch.apiserver import ApiError, ApiServer, UnknownOutcome
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import a_job

_PATIENCE_SECONDS = 60.0


def an_engine(
    cache: ClusterCache, wall: Callable[[], float], *, leads: bool, metrics: Metrics | None = None
) -> Engine:
    """An engine with no API server, that lists everything only once unless it is told to."""
    replica = cast(Any, SimpleNamespace(leads=leads, identity="a", seconds_left=lambda: 60.0, term_version=0))
    config = OperatorConfig.model_validate({"cycle": {"relistSeconds": 86_400}})
    api, metrics = cast(ApiServer, None), metrics or Metrics()
    writer = Writer(api, cache, metrics, lambda: 60.0)
    return Engine(config, api, cache, writer, metrics, replica, wall=wall)


class _StandsBy(Metrics):
    """Sets ``stands_by`` when the engine clears its gauges, which is its last step before it stands by."""

    def __init__(self) -> None:
        super().__init__()
        self.stands_by = asyncio.Event()

    def show(self, gauges: Gauges) -> None:
        super().show(gauges)
        self.stands_by.set()


async def test_a_replica_that_stands_by_keeps_no_delta() -> None:
    """Nobody takes it while another replica leads, so it would grow with each job that comes and goes."""
    cache, metrics = ClusterCache(lambda: 0.0), _StandsBy()
    engine = an_engine(cache, lambda: 0.0, leads=False, metrics=metrics)
    cache.jobs.observe(a_job().raw)
    engine.wake()
    task = asyncio.create_task(engine.run())
    await asyncio.wait_for(metrics.stands_by.wait(), _PATIENCE_SECONDS)
    task.cancel()
    await asyncio.wait([task], timeout=_PATIENCE_SECONDS)
    assert cache.state(60.0).take_delta().jobs == set()


class _FakeTime(selectors.SelectSelector):
    """Lets no time pass for real: an event loop that would sleep finds that the time has come."""

    now_seconds = 1_000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "the loop waits for what never comes"
        self.now_seconds += max(0.0, timeout)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, fake: _FakeTime) -> None:
        self._fake = fake
        super().__init__(fake)

    def time(self) -> float:
        return self._fake.now_seconds


def play(fake: _FakeTime, steps: Callable[[Engine], Awaitable[None]]) -> None:
    """Run an engine, in no time, while these steps are taken."""

    async def run() -> None:
        engine = an_engine(ClusterCache(lambda: 0.0), lambda: fake.now_seconds, leads=True)
        task = asyncio.create_task(engine.run())
        await steps(engine)
        task.cancel()
        await asyncio.wait([task])

    with asyncio.Runner(loop_factory=lambda: _Loop(fake)) as runner:
        runner.run(run())


@pytest.mark.parametrize(
    ("after_seconds", "want_seconds"),
    [(1.0, MISSED_DELETIONS_SECONDS), (MISSED_DELETIONS_SECONDS + 60, MISSED_DELETIONS_SECONDS + 60)],
    ids=["soon after a list", "long after a list"],
)
def test_a_requested_list_waits_for_a_minimum_time_after_the_last_one(
    monkeypatch: pytest.MonkeyPatch, after_seconds: float, want_seconds: float
) -> None:
    """Several requests lead to a single list."""
    fake, listed, once = _FakeTime(), list[float](), asyncio.Event()

    async def relist(*arguments: object, ended_jobs: bool) -> None:
        listed.append(fake.now_seconds)
        once.set()

    monkeypatch.setattr(engine_module, "relist", relist)

    async def steps(engine: Engine) -> None:
        await once.wait()
        await asyncio.sleep(after_seconds)
        for _ in range(3):
            engine.list_soon()
        await asyncio.sleep(600)

    play(fake, steps)
    first, again = listed
    assert again - first == pytest.approx(want_seconds, abs=1)


def test_the_series_of_a_namespace_without_jobs_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def relist(*arguments: object, ended_jobs: bool) -> None:
        """List no jobs."""

    monkeypatch.setattr(engine_module, "relist", relist)

    async def steps(engine: Engine) -> None:
        engine._metrics.namespaces.begin("gone")
        assert 'namespace="gone"' in engine._metrics.render().decode()
        for _ in range(3):
            engine.list_soon()
            await asyncio.sleep(KEPT_SECONDS)
        assert 'namespace="gone"' not in engine._metrics.render().decode()

    play(_FakeTime(), steps)


def test_what_a_watch_missed_before_this_replica_led_is_found_by_a_list_of_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A replica that stands by knows jobs that have ended, and the first list leaves these out."""
    fake, with_ended = _FakeTime(), list[bool]()

    async def relist(*arguments: object, ended_jobs: bool) -> None:
        with_ended.append(ended_jobs)

    monkeypatch.setattr(engine_module, "relist", relist)

    async def steps(engine: Engine) -> None:
        engine.list_soon()
        await asyncio.sleep(600)

    play(fake, steps)
    assert with_ended == [False, True]


def test_workers_without_a_job_are_looked_after_while_lists_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the rights in one of several namespaces were taken away."""
    fake, once, failed = _FakeTime(), asyncio.Event(), 0
    collected = list[float]()

    async def relist(*arguments: object, ended_jobs: bool) -> None:
        nonlocal failed
        await asyncio.sleep(0.1)
        if ended_jobs:
            failed += 1
            raise ApiError(403, "Forbidden", "cannot list trainingjobs in the namespace gone")
        once.set()

    async def collect(*arguments: object) -> bool:
        collected.append(fake.now_seconds)
        return True

    monkeypatch.setattr(engine_module, "relist", relist)
    monkeypatch.setattr(GarbageCollector, "collect_workers", collect)

    async def steps(engine: Engine) -> None:
        await once.wait()
        await asyncio.sleep(MISSED_DELETIONS_SECONDS)
        engine.list_soon()
        collected.clear()
        await asyncio.sleep(600)

    play(fake, steps)
    assert failed > 100
    assert len(collected) > 10


def test_the_cycle_knows_since_when_this_replica_has_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that has led before begins again: it has not seen what happened meanwhile."""
    fake, seen, run = _FakeTime(), list[tuple[float, float]](), Cycle.run

    async def relist(*arguments: object, ended_jobs: bool) -> None:
        return

    def observed(cycle: Cycle, state: Any, history: WriteHistory, *arguments: Any) -> CycleResult:
        seen.append((fake.now_seconds, history.watched_since_seconds))
        return run(cycle, state, history, *arguments)

    monkeypatch.setattr(engine_module, "relist", relist)
    monkeypatch.setattr(Cycle, "run", observed)

    async def steps(engine: Engine) -> None:
        for leads in (True, False, True):
            cast(Any, engine._leadership).leads = leads
            await asyncio.sleep(100)

    play(fake, steps)
    first, second = seen[0][0], next(now for now, _ in seen if now >= 1_200)
    assert {since for _, since in seen} == {first, second}
    assert {since for now, since in seen if now < 1_200} == {first}


def test_cycles_go_on_while_a_list_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, cycles, run, lists = _FakeTime(), list[float](), Cycle.run, list[float]()

    async def relist(*arguments: object, ended_jobs: bool) -> None:
        lists.append(fake.now_seconds)
        if len(lists) > 1:
            await asyncio.Event().wait()

    def observed(cycle: Cycle, *arguments: Any) -> CycleResult:
        cycles.append(fake.now_seconds)
        return run(cycle, *arguments)

    monkeypatch.setattr(engine_module, "relist", relist)
    monkeypatch.setattr(Cycle, "run", observed)

    async def steps(engine: Engine) -> None:
        await asyncio.sleep(100)
        engine.list_soon()
        await asyncio.sleep(100)

    play(fake, steps)
    _, again = lists
    assert any(moment > again + 50 for moment in cycles)


def test_a_list_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, lists = _FakeTime(), list[float]()

    async def relist(*arguments: object, ended_jobs: bool) -> None:
        lists.append(fake.now_seconds)
        if len(lists) in (1, 3, 4):
            raise UnknownOutcome("no answer")

    monkeypatch.setattr(engine_module, "relist", relist)

    async def steps(engine: Engine) -> None:
        await asyncio.sleep(100)
        engine.list_soon()
        await asyncio.sleep(100)

    play(fake, steps)
    assert len(lists) == 5
    assert lists[1] - lists[0] == pytest.approx(1.0, abs=0.2)
    assert lists[4] - lists[2] == pytest.approx(2.0, abs=0.4)
