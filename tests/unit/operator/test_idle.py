"""How often the operator decides where nothing changes."""

from __future__ import annotations

import pytest
from laneway.operator.pacing import idle_seconds


@pytest.mark.parametrize(
    ("what", "due_in_seconds", "decision_cpu_seconds", "want_seconds"),
    [
        ("something is due later", 7.0, 0.002, 7.0),
        ("something is due at once, and a decision takes no time", 0.0, 0.0, 0.05),
        ("something is overdue, with a few jobs", -3.0, 0.002, 0.2),
        ("something is overdue, with thousands of jobs: a hundredth of a core at most", -3.0, 0.04, 4.0),
        ("decisions take long: what is due is not put off for ever", -3.0, 2.0, 5.0),
    ],
)
def test_due_work_waits_longer_when_decisions_take_more_cpu(
    what: str, due_in_seconds: float, decision_cpu_seconds: float, want_seconds: float
) -> None:
    assert idle_seconds(due_in_seconds, decision_cpu_seconds) == pytest.approx(want_seconds), what
