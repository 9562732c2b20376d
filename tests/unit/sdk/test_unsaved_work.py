"""What the user is told of work that a stop would lose."""

from __future__ import annotations

from typing import Any, cast

import pytest
from laneway.sdk import TrainingJobClient
from laneway.sdk.cluster import Cluster
from laneway.sdk.unsaved_work import loss_at_a_stop

from tests.support.training_jobs import CREATED, CREATED_SECONDS, PLACED, a_condition, a_job

NOW = CREATED_SECONDS + 95
RUNNING: dict[str, Any] = {"placement": PLACED, "conditions": [a_condition("Running")]}


@pytest.mark.parametrize(
    ("story", "job", "want"),
    [
        ("it saved none", a_job(progress={"unsavedSince": CREATED}, **RUNNING), "no checkpoint of it was seen, so it may start from the beginning and lose 1m35s of training"),
        ("it does not load them", a_job(progress={"unsavedSince": CREATED, "lastCheckpointTime": CREATED, "resumes": False}, **RUNNING), "its last attempt did not go on from its checkpoint"),
        ("it saves", a_job(progress={"unsavedSince": CREATED, "lastCheckpointTime": CREATED}, **RUNNING), ""),
        ("nothing is known", a_job(progress={"iterations": 7}, **RUNNING), ""),
        ("it has no workers", a_job(progress={"unsavedSince": CREATED}), ""),
    ],
)  # fmt: skip
def test_what_a_stop_would_lose(story: str, job: dict[str, Any], want: str) -> None:
    found = loss_at_a_stop(job, NOW)
    assert found.startswith(want), story
    assert bool(found) == bool(want), story


class Suspended:
    """A cluster that answers a change with the job."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._job = job

    def patch(self, *_: Any, **__: Any) -> dict[str, Any]:
        return self._job


def test_the_client_warns_of_a_job_that_saved_nothing() -> None:
    job = a_job(progress={"unsavedSince": CREATED}, **RUNNING)
    client = TrainingJobClient(namespace="team", cluster=cast(Cluster, Suspended(job)))
    with pytest.warns(UserWarning, match="TrainingJob digits: no checkpoint of it was seen"):
        client.suspend_job("digits")


def test_the_client_does_not_warn_where_nothing_is_known(recwarn: pytest.WarningsRecorder) -> None:
    client = TrainingJobClient(namespace="team", cluster=cast(Cluster, Suspended(a_job(**RUNNING))))
    client.suspend_job("digits")
    assert not recwarn.list
