"""Sentences are written at a bounded rate, and give way to jobs that start."""

from __future__ import annotations

from laneway.operator.config import CycleConfig
from laneway.operator.write_budget import WriteBudget

NOW = 1_000.0
MANY = 1_000


def a_budget() -> WriteBudget:
    return WriteBudget(CycleConfig(explanations_per_second=20, explain_seconds=5))


def test_what_was_saved_up_is_spent_at_once_and_then_so_many_a_second() -> None:
    budget = a_budget()
    assert budget.sentences(MANY, 0, NOW) == 100
    assert budget.sentences(MANY, 0, NOW) == 0
    assert budget.sentences(MANY, 0, NOW + 2) == 40
    assert budget.sentences(3, 0, NOW + 4) == 3, "no more than there are"


def test_while_many_jobs_start_few_sentences_are_written_and_no_service() -> None:
    budget = a_budget()
    assert budget.sentences(MANY, 100, NOW) == 10, "a tenth of what it would be"
    assert budget.sentences(MANY, 100, NOW + 2) == 4
    assert budget.service(MANY, 100, NOW) == 0
    assert budget.service(MANY, 0, NOW) == 100
    assert budget.sentences(MANY, 0, NOW + 60) == 100, "what was saved up is still there"


def test_a_few_jobs_that_start_hold_nothing_up() -> None:
    budget = a_budget()
    assert budget.sentences(MANY, 5, NOW) == 100
    assert budget.service(MANY, 5, NOW) == 100
