"""Which events count as a job's."""

from __future__ import annotations

import pytest
from laneway.sdk.job import of_an_earlier_job

JOB = {"uid": "new", "creationTimestamp": "2026-01-31T12:00:00Z"}


@pytest.mark.parametrize(
    ("kind", "uid", "written", "earlier"),
    [
        ("TrainingJob", "new", "2026-01-31T12:00:00Z", False),
        ("TrainingJob", "old", "2026-01-31T12:00:00Z", True),
        ("Pod", "worker of either", "2026-01-31T12:00:00Z", False),
        ("Pod", "worker of the old one", "2026-01-31T11:59:59Z", True),
    ],
)
def test_events_of_a_deleted_job_of_the_same_name_do_not_count(
    kind: str, uid: str, written: str, earlier: bool
) -> None:
    event = {"involvedObject": {"kind": kind, "uid": uid}, "metadata": {"creationTimestamp": written}}
    assert of_an_earlier_job(event, JOB) is earlier
