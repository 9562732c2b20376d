"""Explanations are written at a bounded rate, after the writes of starting jobs."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.deferred_statuses import DeferredStatuses
from laneway.operator.cycle.write_history import WriteHistory
from laneway.scheduling.config.operator_config import CycleConfig, OperatorConfig

from tests.unit.operator.builders import NOW, a_gpu_node, a_job, a_view

MANY = 1_000


class Deferred:
    """Statuses of many jobs, all of them due."""

    def __init__(self) -> None:
        self._statuses = DeferredStatuses(CycleConfig(explanations_per_second=20, explain_seconds=5))
        for number in range(MANY):
            self._statuses.defer(f"uid-{number}", NOW)

    def written(
        self,
        starting: int,
        now_seconds: float,
        postponed: Iterable[str] = (),
        in_flight: Collection[str] = (),
    ) -> list[str]:
        """Those that may be written."""
        is_postponed = frozenset(postponed).__contains__
        return list(self._statuses.take(starting, in_flight, now_seconds, is_postponed))


def test_what_was_saved_up_is_spent_at_once_and_then_so_many_a_second() -> None:
    deferred = Deferred()
    assert len(deferred.written(0, NOW)) == 100
    assert len(deferred.written(0, NOW)) == 0
    assert len(deferred.written(0, NOW + 2)) == 40


def test_no_more_is_written_than_there_is() -> None:
    statuses = DeferredStatuses(CycleConfig(explanations_per_second=20, explain_seconds=5))
    for uid in ("a", "b", "c"):
        statuses.defer(uid, NOW)
    assert list(statuses.take(0, (), NOW, lambda _: False)) == ["a", "b", "c"]
    assert list(statuses.take(0, (), NOW, lambda _: False)) == []


def test_where_the_api_server_is_slower_than_the_allowance_no_queue_grows() -> None:
    deferred = Deferred()
    in_flight = deferred.written(0, NOW)
    assert deferred.written(0, NOW + 60, in_flight=in_flight) == [], "100 are in flight"
    assert len(deferred.written(0, NOW + 61, in_flight=in_flight[30:])) == 30


def test_while_many_jobs_start_few_sentences_are_written() -> None:
    deferred = Deferred()
    assert len(deferred.written(100, NOW)) == 10, "a tenth of what it would be"
    assert len(deferred.written(100, NOW + 2)) == 4
    assert len(deferred.written(0, NOW + 60)) == 100, "what was saved up is still there"


def test_a_few_jobs_that_start_hold_nothing_up() -> None:
    assert len(Deferred().written(5, NOW)) == 100


def test_a_postponed_status_takes_nothing_of_the_allowance() -> None:
    deferred = Deferred()
    postponed = {f"uid-{number}" for number in range(MANY - 50)}
    assert len(deferred.written(0, NOW, postponed)) == 50
    assert len(deferred.written(0, NOW + 1)) == 70, "50 were left, and 20 a second come"


def test_no_more_starts_are_decided_than_can_be_written_soon() -> None:
    config = OperatorConfig.model_validate({"cycle": {"startsPerCycle": 1}})
    jobs = [a_job(name).record for name in ("a", "b")]
    view = a_view(jobs, gpu_nodes=[a_gpu_node("n1")])
    cycle = Cycle(config)
    first = cycle.run(view, WriteHistory({}, {}), NOW)
    [started] = [each.job for each in first.writes if each.creates]
    second = cycle.run(view, WriteHistory({}, {}), NOW, in_flight={started.uid})
    assert not any(each.creates for each in second.writes), "the first one is still being written"
    assert NOW < second.due_seconds <= NOW + 1
