"""How a wait ends, by the job's conditions."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.cli.exit_codes import FAILED, OK
from laneway.cli.verbs.wait import exit_code


def job_with(**conditions: bool) -> dict[str, Any]:
    return {
        "metadata": {"name": "j"},
        "spec": {},
        "status": {
            "conditions": [
                {
                    "type": kind,
                    "status": str(holds),
                    "reason": "Tested",
                    "message": "A test.",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
                for kind, holds in conditions.items()
            ]
        },
    }


@pytest.mark.parametrize(
    ("story", "job", "condition", "code"),
    [
        ("it runs", job_with(Running=True), "Running", OK),
        ("it waits", job_with(Running=False), "Running", None),
        ("it was too fast to be seen running", job_with(Running=False, Complete=True), "Running", OK),
        ("it failed before it ran", job_with(Running=False, Failed=True), "Running", FAILED),
        ("it completed and was to fail", job_with(Complete=True), "Failed", FAILED),
        ("it ended well", job_with(Complete=True), "ended", OK),
        ("it ended badly", job_with(Failed=True), "ended", FAILED),
    ],
)
def test_a_wait_ends_by_the_conditions(
    story: str, job: dict[str, Any], condition: str, code: int | None
) -> None:
    assert exit_code(job, None, "j", condition) == code, story
