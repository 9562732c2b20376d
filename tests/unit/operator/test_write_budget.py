"""Explanations are written at a bounded rate, after the writes of starting jobs."""

from __future__ import annotations

from laneway.operator.config import CycleConfig, OperatorConfig
from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.write_budget import WriteBudget
from laneway.operator.cycle.write_history import WriteHistory

from tests.unit.operator.builders import NOW, a_gpu_node, a_job, a_view

MANY = 1_000


def a_budget() -> WriteBudget:
    return WriteBudget(CycleConfig(explanations_per_second=20, explain_seconds=5))


def explanations(budget: WriteBudget, wanted: int, starting: int, now_seconds: float) -> int:
    """How many of the wanted explanations may be written."""
    return sum(budget.take_explanation(starting, now_seconds) for _ in range(wanted))


def services(budget: WriteBudget, wanted: int, starting: int, now_seconds: float) -> int:
    """How many of the wanted statuses with new service may be written."""
    return sum(budget.take_service(starting, now_seconds) for _ in range(wanted))


def test_what_was_saved_up_is_spent_at_once_and_then_so_many_a_second() -> None:
    budget = a_budget()
    assert explanations(budget, MANY, 0, NOW) == 100
    assert explanations(budget, MANY, 0, NOW) == 0
    assert explanations(budget, MANY, 0, NOW + 2) == 40
    assert explanations(budget, 3, 0, NOW + 4) == 3, "no more than there are"


def test_while_many_jobs_start_few_sentences_are_written_and_no_service() -> None:
    budget = a_budget()
    assert explanations(budget, MANY, 100, NOW) == 10, "a tenth of what it would be"
    assert explanations(budget, MANY, 100, NOW + 2) == 4
    assert services(budget, MANY, 100, NOW) == 0
    assert services(budget, MANY, 0, NOW) == 100
    assert explanations(budget, MANY, 0, NOW + 60) == 100, "what was saved up is still there"


def test_a_few_jobs_that_start_hold_nothing_up() -> None:
    budget = a_budget()
    assert explanations(budget, MANY, 5, NOW) == 100
    assert services(budget, MANY, 5, NOW) == 100


def test_no_more_starts_are_decided_than_can_be_written_soon() -> None:
    config = OperatorConfig.model_validate({"cycle": {"startsPerCycle": 1}})
    jobs = [a_job(name).record for name in ("a", "b")]
    view = a_view(jobs, gpu_nodes=[a_gpu_node("n1")])
    cycle = Cycle(config.scheduling.policies(), config)
    first = cycle.run(view, WriteHistory({}, {}), NOW)
    [started] = [each.job for each in first.writes if each.creates]
    second = cycle.run(view, WriteHistory({}, {}), NOW, in_flight={started.uid})
    assert not any(each.creates for each in second.writes), "the first one is still being written"
    assert NOW < second.due_seconds <= NOW + 1
