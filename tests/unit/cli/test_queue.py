"""The jobs that wait, as ``queue`` lists them."""

from __future__ import annotations

from typing import Any

from laneway.cli.verbs.queue import queue_rows

from tests.support.training_jobs import CREATED_SECONDS, a_condition, a_job, a_reason


def waits(name: str, **fields: Any) -> dict[str, Any]:
    return a_job(name, conditions=[a_condition("Accepted")], waiting=a_reason(**fields))


def test_the_next_one_comes_first() -> None:
    jobs = [
        waits("third", position=3),
        waits("no-position", position=None, reason="QuotaExceeded"),
        waits("first", position=1, estimatedStart="2026-01-31T12:10:00Z"),
        a_job("runs", conditions=[a_condition("Running")]),
    ]
    rows = queue_rows(jobs, CREATED_SECONDS + 60, namespaces=False)
    assert [row[:2] for row in rows] == [["1", "first"], ["3", "third"], ["-", "no-position"]]
    assert rows[0][2:] == [
        "0", "0 GPU-s", "50% GPU", "1m", "in 9m", "GPUsBusy", "It starts when 3 more GPUs have room.",
    ]  # fmt: skip
    assert queue_rows(jobs, CREATED_SECONDS, namespaces=True)[0][0] == "team"
