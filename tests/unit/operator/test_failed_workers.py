"""A job that fails with a new number of workers goes back to the one that has worked, and keeps away from the other."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import FailedWorkersStatus
from laneway.operator.lifecycle import failed_workers, transitions
from laneway.operator.lifecycle.failed_workers import WORKED_SECONDS
from laneway.operator.state.records.job_record import JobRecord
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import (
    NOW,
    a_gpu_node,
    a_job,
    a_pod,
    a_view,
    condition_of,
    decided,
    placement_on,
    reasons,
    reconciled_job_of,
    snapshot_of,
    write_of,
)

POLLUX: dict[str, Any] = {"elastic": {"policy": "pollux"}}


def rescaled(workers: int = 4, ran: float = 900.0, **spec: Any) -> JobRecord:
    """A job that ran for a while with two workers, and is placed with others now."""
    job = a_job("e").spec(workers=2, minWorkers=1, maxWorkers=8, **spec).visited()
    job = job.status(selector="laneway.dev/job-uid=uid-e").placed("n1", "n1", at=NOW - ran - 10)
    job = job.running(since=NOW - ran).status(service_counted_at=format_time(NOW - ran))
    stopped = job.after(transitions.rescaled, workers, "m", NOW)
    return (
        stopped.spec(workers=workers).after(transitions.placed, placement_on(*["n1"] * workers), NOW).record
    )


def fails(job: JobRecord, after: float = 60.0, at: float = NOW + 10) -> JobRecord:
    """The job after its attempt has run for a while and a worker has failed."""
    running = job.with_status(transitions.started(job.status, "AllWorkersRun", "m", at))
    pods = [a_pod(running, rank).running(since=at).record for rank in range(1, running.attempt_workers)]
    failed = a_pod(running, 0).ended(1, since=at, at=at + after).record
    return reconciled_job_of(running, failed, *pods, now=at + after).job


def again(job: JobRecord) -> JobRecord:
    """The same job, placed with the same number of workers."""
    return job.with_status(
        transitions.placed(job.status, placement_on(*["n1"] * job.attempt_workers), NOW + 100)
    )


def waiting_for(job: JobRecord, **config: Any) -> Any:
    view = a_view([job], (), [a_gpu_node("n1", gpus=8)])
    return decided(view, NOW + 9000, config=OperatorConfig.model_validate(config))


def test_it_goes_back_after_two_failures_and_keeps_away_from_the_number() -> None:
    job = rescaled()
    assert job.status.working_workers == 2
    once = fails(job)
    assert condition_of(once.status, "Placed") == ("False", "WorkerFailed")
    assert (once.next_workers, once.status.restarts, once.status.avoided_workers) == (4, 1, frozenset())
    twice = fails(again(once), at=NOW + 110)
    assert condition_of(twice.status, "Placed") == ("False", "RescaleFailed")
    assert (twice.next_workers, twice.status.restarts) == (2, 0), "the failures were the number's"
    assert twice.status.avoided_workers == {4}

    write = write_of(waiting_for(twice), "e")
    assert write is not None
    assert (write.status.attempt_workers, len(write.creates)) == (2, 2)
    back = twice.with_status(write.status)
    result = decided(
        a_view([back], [a_pod(back, rank).running().record for rank in (0, 1)], [a_gpu_node("n1", gpus=8)]),
        NOW + 20_000,
    )
    assert result.decision.rescales == {}
    pending = write_of(result, "e")
    assert pending is not None
    assert condition_of(pending.status, "RescalePending") == ("True", "FailedBefore")
    message = next(each.message for each in pending.status.conditions if each.type == "RescalePending")
    assert message.startswith("Running with 2 workers. It failed with 4")


def test_an_event_tells_what_happened_and_what_to_do() -> None:
    once = again(fails(rescaled()))
    running = once.with_status(transitions.started(once.status, "AllWorkersRun", "m", NOW + 110))
    failed = a_pod(running, 0).ended(1, since=NOW + 110, at=NOW + 120).record
    pods = [a_pod(running, rank).running(since=NOW + 110).record for rank in (1, 2, 3)]
    found = reconciled_job_of(running, failed, *pods, now=NOW + 120)
    assert reasons(found) == ["RescaleFailed"]
    (event,) = found.events
    assert "2 attempts in a row with 4 workers failed within ten minutes: it restarts with 2" in event.message
    assert event.warning


def test_a_rescale_does_not_fail_a_job_that_has_no_restart_left() -> None:
    failed = fails(rescaled(backoffLimit=0))
    assert not failed.finished
    assert (failed.next_workers, failed.status.avoided_workers) == (2, {4})


def test_a_number_with_which_it_ran_for_a_while_is_not_the_cause() -> None:
    job = fails(rescaled(), after=WORKED_SECONDS + 1)
    assert (job.status.working_workers, job.status.failed_workers) == (4, ())
    assert not fails(again(job), at=NOW + 800).status.failed_workers
    once = again(fails(rescaled()))
    assert fails(once, after=WORKED_SECONDS + 1, at=NOW + 110).status.failed_workers == ()


def test_without_a_number_that_has_worked_a_failure_is_a_failure() -> None:
    job = rescaled(ran=300.0)
    assert job.status.working_workers == 0
    assert not fails(job).status.failed_workers
    assert fails(rescaled(ran=300.0, backoffLimit=0)).finished
    rigid = a_job("r").gang(2).placed("n1", "n1", at=NOW).record
    assert not fails(rigid).status.failed_workers


@pytest.mark.parametrize("scheduling", [{}, POLLUX])
def test_it_starts_first_with_the_number_that_works_whoever_chooses(scheduling: dict[str, Any]) -> None:
    job = fails(again(fails(rescaled())), at=NOW + 110)
    write = write_of(waiting_for(job, scheduling=scheduling), "e")
    assert write is not None
    assert write.status.attempt_workers == 2


def test_a_policy_gives_it_other_numbers_later() -> None:
    job = fails(again(fails(rescaled())), at=NOW + 110)
    since = NOW + 200
    status = transitions.placed(job.status, placement_on("n1", "n1"), since)
    job = job.with_status(transitions.started(status, "AllWorkersRun", "m", since))
    pods = [a_pod(job, rank).running(since=since).record for rank in (0, 1)]
    for gpus, workers in ((8, 3), (3, 3)):
        view = a_view([job], pods, [a_gpu_node("n1", gpus=gpus)])
        config = OperatorConfig.model_validate({"scheduling": POLLUX})
        assert decided(view, since + 900, config=config).decision.rescales == {"ns/e": workers}


def test_after_four_such_numbers_it_is_not_rescaled_any_more() -> None:
    failed = [
        FailedWorkersStatus(workers=number, failures=2, last=format_time(NOW), avoided=True)
        for number in (3, 4, 5, 6)
    ]
    job = a_job("e").spec(workers=8, minWorkers=1, maxWorkers=8).placed("n1", "n1").running(since=NOW - 5000)
    few, many = (job.status(working_workers=2, failed_workers=tuple(failed[:most])).record for most in (3, 4))
    pods = [a_pod(many, rank).running().record for rank in (0, 1)]
    nodes = [a_gpu_node("n1", gpus=8)]
    assert snapshot_of(a_view([few], pods, nodes)).jobs[0].requested_workers == 8
    assert snapshot_of(a_view([many], pods, nodes)).jobs[0].requested_workers is None
    held = failed_workers.held_back(many)
    assert held is not None
    assert "It failed with 3, 4, 5, 6 workers" in held.message
    result = decided(
        a_view([many], pods, nodes), config=OperatorConfig.model_validate({"scheduling": POLLUX})
    )
    assert result.decision.rescales == {}


def test_a_suspension_ends_it() -> None:
    job = fails(again(fails(rescaled())), at=NOW + 110)
    assert transitions.with_suspension(job.status, NOW + 300, suspended=True).failed_workers == ()
