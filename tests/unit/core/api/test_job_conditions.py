"""The summary of a job's conditions."""

from __future__ import annotations

import pytest
from laneway.api.conditions import Condition
from laneway.api.job_conditions import summarize
from laneway.api.training_job_status import TrainingJobStatus


def condition(text: str) -> Condition:
    """Return a condition written as ``Type=Status/Reason``."""
    type_, _, rest = text.partition("=")
    status, _, reason = rest.partition("/")
    return Condition.model_validate(
        {
            "type": type_,
            "status": status,
            "reason": reason or "Because",
            "message": "",
            "lastTransitionTime": "2026-01-31T12:00:00Z",
        }
    )


@pytest.mark.parametrize(
    ("conditions", "waiting", "want"),
    [
        ([], "", ("Pending", "")),
        (["Accepted=False/InvalidSpec"], "InvalidSpec", ("Invalid", "InvalidSpec")),
        (["Accepted=True", "Placed=False/GPUsBusy"], "GPUsBusy", ("Pending", "GPUsBusy")),
        (["Placed=False/Preempted", "Preempted=True"], "WorkersEnding", ("Pending", "WorkersEnding")),
        (["Suspended=True", "Placed=False/Suspended"], "Suspended", ("Suspended", "")),
        (["Suspended=True", "Placed=False"], "WorkersEnding", ("Suspended", "WorkersEnding")),
        (["Placed=True", "Running=False/NotStarted"], "Starting", ("Starting", "")),
        (["Placed=True", "Running=True"], "", ("Running", "")),
        (["Placed=True", "Running=True", "Accepted=False/InvalidSpec"], "", ("Running", "")),
        (["Placed=True", "Running=False/WaitingForLane"], "WaitingForLane", ("Waiting", "WaitingForLane")),
        (["Placed=True", "Running=False/Paused", "Preempted=True"], "Paused", ("Paused", "")),
        (["Placed=True", "Running=False/Offloaded"], "Offloaded", ("Paused", "Offloaded")),
        (["Complete=True/AllWorkersSucceeded", "Placed=False"], "", ("Complete", "")),
        (["Failed=True/OOMKilled", "Running=False/Failed"], "", ("Failed", "OOMKilled")),
    ],
)
def test_the_summary_follows_from_the_conditions(
    conditions: list[str], waiting: str, want: tuple[str, str]
) -> None:
    assert summarize([condition(each) for each in conditions], waiting) == want


def test_a_status_carries_its_summary() -> None:
    status = TrainingJobStatus(conditions=(condition("Failed=True/OOMKilled"),))
    assert (status.to_json()["state"], status.to_json()["reason"]) == ("Failed", "OOMKilled")
    assert TrainingJobStatus.model_validate(status.to_json()) == status, "it is read back, whatever it says"
