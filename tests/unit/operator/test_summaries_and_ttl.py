"""The summary of a status follows its conditions, and an ended job is removed after its TTL."""

from __future__ import annotations

import math
from typing import Any

import pytest
from laneway.api.rfc3339 import format_time
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.between_attempts import expires_seconds
from laneway.operator.state.records.job_record import parse_job
from laneway.scheduling.config.operator_config import TimeoutsConfig

from tests.unit.operator.builders import (
    NOW,
    TIMEOUTS,
    a_gpu_node,
    a_job,
    a_view,
    decided,
    reconciled_job_of,
    write_of,
)


def test_an_ended_job_expires_after_its_ttl() -> None:
    job = a_job().spec(ttlSecondsAfterFinished=30).placed("n1").running()
    ended = job.after(transitions.succeeded, "done", NOW - 10, NOW - 10).record
    assert reconciled_job_of(ended).due_seconds == pytest.approx(NOW + 20)
    assert not reconciled_job_of(ended).expired
    assert reconciled_job_of(ended, now=NOW + 20).expired


@pytest.mark.parametrize("details", [True, False])
def test_an_end_that_was_seen_late_is_there_to_be_read_for_its_ttl(details: bool) -> None:
    """The operator was away, or the node's clock is slow."""
    job = a_job().spec(ttlSecondsAfterFinished=30).placed("n1").running()
    ended = job.after(transitions.succeeded, "done", NOW - 1000, NOW - 10).record
    ended = ended if details else ended.without_details()
    assert expires_seconds(ended, TIMEOUTS) == pytest.approx(NOW + 20)


def ended_job(**spec: Any) -> dict[str, Any]:
    job = a_job().spec(**spec).placed("n1").running()
    return job.after(transitions.succeeded, "done", NOW - 10, NOW - 10).raw


def test_an_ended_job_expires_though_its_spec_cannot_be_read() -> None:
    record = parse_job(ended_job(ttlSecondsAfterFinished=30, sharing="Sometimes"))
    assert record.desired is None
    assert reconciled_job_of(record).due_seconds == pytest.approx(NOW + 20)
    assert reconciled_job_of(record, now=NOW + 20).expired


@pytest.mark.parametrize("ttl", ["soon", -1, True, None, 2**40])
def test_an_ended_job_without_a_readable_ttl_expires_after_the_operators(ttl: object) -> None:
    record = parse_job(ended_job(ttlSecondsAfterFinished=ttl, sharing="Sometimes"))
    timeouts = TimeoutsConfig(ended_job_seconds=3600)
    assert reconciled_job_of(record, timeouts=timeouts).due_seconds == NOW - 10 + 3600
    timeouts = TimeoutsConfig(ended_job_seconds=0)
    assert reconciled_job_of(record, now=NOW + 2**41, timeouts=timeouts).due_seconds == math.inf, (
        "switched off"
    )


@pytest.mark.parametrize(
    "edited", [{"state": "Running"}, {"reason": "Edited"}, {"state": "Running", "reason": "Edited"}]
)
def test_an_edited_summary_of_an_ended_job_is_corrected(edited: dict[str, str]) -> None:
    raw = ended_job()
    view = a_view([parse_job(raw)], gpu_nodes=[a_gpu_node("n1")])
    assert decided(view).writes == ()
    raw["status"] |= edited
    view = a_view([parse_job(raw)], gpu_nodes=[a_gpu_node("n1")])
    assert decided(view, written={"uid-job": NOW}).writes == (), "who edits again and again waits"
    write = write_of(decided(view), "job")
    assert write is not None
    assert write.writes_status
    assert (write.status.state, write.status.reason) == ("Complete", "")
    raw["metadata"]["deletionTimestamp"] = format_time(NOW)
    assert decided(a_view([parse_job(raw)], gpu_nodes=[a_gpu_node("n1")])).writes == ()


def test_the_summary_of_another_controllers_job_is_its_own() -> None:
    raw = ended_job(managedBy="example.com/other")
    raw["status"] |= {"state": "Running"}
    assert decided(a_view([parse_job(raw)], gpu_nodes=[a_gpu_node("n1")])).writes == ()


def test_an_edited_summary_of_a_waiting_job_is_corrected() -> None:
    waiting = a_job().gang(9).visited()
    view = a_view([waiting.record], gpu_nodes=[a_gpu_node("n1")])
    explained = write_of(decided(view), "job")
    assert explained is not None
    raw = waiting.raw | {"status": explained.status.to_json()}
    assert write_of(decided(a_view([parse_job(raw)], gpu_nodes=[a_gpu_node("n1")])), "job") is None
    raw["status"]["state"] = "Running"
    write = write_of(decided(a_view([parse_job(raw)], gpu_nodes=[a_gpu_node("n1")])), "job")
    assert write is not None
    assert write.writes_status
