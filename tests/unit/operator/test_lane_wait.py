"""A worker that runs but waits for a lane: its job waits and is not charged."""

from __future__ import annotations

import pytest
from laneway.api.job_conditions import WAITING_FOR_LANE
from laneway.api.rfc3339 import format_time
from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.templates import NOTHING_KNOWN
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.cycle.writes import job_write
from laneway.operator.lifecycle import accounting, transitions
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.state.records.job_record import JobRecord
from laneway.scheduling import JobState
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import (
    NOW,
    a_gpu_node,
    a_job,
    a_pod,
    a_session,
    a_view,
    condition_of,
    decided,
    reasons,
    reconciled_job_of,
    write_of,
)


class TestAWorkerWithoutALane:
    """Its container runs, and its node has no lane for it: the job cannot use its GPUs."""

    NO_LANE = "waits for a lane: 10 GiB of 4 GiB"

    def reconciled(self, job: JobRecord, lane: int | None, turns: int = 1) -> ReconciledJob:
        pod = a_pod(job).running().record
        message = "" if lane is not None else self.NO_LANE
        session = a_session(pod, state="Waiting", lane=lane, message=message, turns=turns)
        node = a_gpu_node("n1", sessions={0: [session]})
        return reconciled_job_of(job, pod, view=a_view(gpu_nodes=[node]))

    def test_the_job_waits_and_is_charged_nothing(self) -> None:
        running = a_job().placed("n1", at=NOW - 60).running(since=NOW - 30).record
        reconciled = self.reconciled(running, lane=None)
        status = reconciled.job.status
        assert (status.state, status.reason) == ("Waiting", "WaitingForLane")
        assert condition_of(status, "Running") == ("False", "WaitingForLane")
        assert status.waiting is not None
        assert self.NO_LANE in status.waiting.message
        assert reasons(reconciled) == ["WaitingForLane"]
        assert reconciled.state is JobState.RUNNING, "it holds its share"
        assert accounting.counted(status, NOW + 100).executed_milliseconds == 30_000
        again = self.reconciled(reconciled.job, lane=None)
        assert again.job.status is status
        assert again.events == (), "it is said once"

    def test_the_job_runs_and_is_charged_from_when_it_has_its_lane(self) -> None:
        running = a_job().placed("n1", at=NOW - 60).running(since=NOW - 30).record
        granted = self.reconciled(self.reconciled(running, lane=None).job, lane=0)
        status = granted.job.status
        assert (status.state, status.reason, status.waiting) == ("Running", "", None)
        assert reasons(granted) == ["LaneGranted"]
        assert status.attempt == 1
        assert accounting.counted(status, NOW + 100).executed_milliseconds == 130_000

    def test_a_job_without_a_turn_is_not_charged_for_the_time_in_which_no_operator_was_there(self) -> None:
        limit = a_job().spec(activeDeadlineSeconds=20)
        running = limit.placed("n1", at=NOW - 60).running(since=NOW - 30).record
        status = self.reconciled(running, lane=None, turns=0).job.status
        assert (status.state, status.reason) == ("Waiting", "WaitingForLane")
        assert status.executed_milliseconds == 0
        status = self.reconciled(running, lane=None, turns=1).job.status
        assert (status.state, status.reason) == ("Failed", "DeadlineExceeded")

    @pytest.mark.parametrize("seen_after", [0.5, 3.0])
    def test_nor_if_its_start_was_seen_late(self, seen_after: float) -> None:
        placed = a_job("a").spec(activeDeadlineSeconds=3600).placed("n1", at=NOW - 20).record
        pod = a_pod(placed).running(since=NOW - seen_after).record
        start = write_of(decided(a_view([placed], [pod], [a_gpu_node("n1")])), "a")
        assert start is not None
        waiting = a_gpu_node("n1", sessions={0: [a_session(pod, state="Waiting", lane=None, turns=0)]})
        later = decided(a_view([placed.with_status(start.status)], [pod], [waiting]), now=NOW + 18_000)
        seen = write_of(later, "a")
        assert seen is not None
        assert (seen.status.state, seen.status.reason) == ("Waiting", "WaitingForLane")
        assert seen.status.executed_milliseconds == 0

    def test_service_that_was_counted_is_not_taken_back(self) -> None:
        """A process that computes without the client takes no turns. If it then opens a session that gets no lane, it has run."""
        counted = (
            a_job().placed("n1", at=NOW - 90).running(since=NOW - 80).after(accounting.counted, NOW - 20)
        )
        status = self.reconciled(counted.record, lane=None, turns=0).job.status
        assert (status.state, status.reason) == ("Waiting", "WaitingForLane")
        assert status.executed_milliseconds == 80_000

    def test_nor_is_that_of_a_minute_in_which_the_operator_was_there(self) -> None:
        running = a_job().placed("n1", at=NOW - 90).running(since=NOW - 80).record
        pod = a_pod(running).running(since=NOW - 80).record
        waiting = a_gpu_node("n1", sessions={0: [a_session(pod, state="Waiting", lane=None, turns=0)]})
        executed = []
        for watched in (-1000, -60, -59):
            history = WriteHistory({}, {}, watched_since_seconds=NOW + watched)
            result = Cycle(OperatorConfig()).run(a_view([running], [pod], [waiting]), history, NOW)
            (write,) = result.writes
            executed.append(write.status.executed_milliseconds)
        assert executed == [80_000, 80_000, 0], "one that has only begun has not seen whether it had a lane"

    def test_service_since_a_lane_was_granted_is_not_taken_back(self) -> None:
        job = a_job().placed("n1", at=NOW - 90).running(since=NOW - 80)
        job = job.after(transitions.kept_from_gpus, WAITING_FOR_LANE, self.NO_LANE, NOW - 80).after(
            transitions.freed, NOW - 30
        )
        status = self.reconciled(job.record, lane=None, turns=0).job.status
        assert (status.state, status.reason) == ("Waiting", "WaitingForLane")
        assert status.executed_milliseconds == 30_000

    def test_a_job_that_has_not_run_yet_keeps_waiting_since_it_was_created(self) -> None:
        starting = a_job().placed("n1", at=NOW - 60).record
        assert starting.status.waiting is not None
        waits = self.reconciled(starting, lane=None).job
        assert waits.status.waiting is not None
        assert (waits.status.waiting.reason, waits.status.waiting.since) == (
            "WaitingForLane",
            starting.status.waiting.since,
        )
        granted = self.reconciled(waits, lane=0)
        assert job_write(waits, granted, (), NOTHING_KNOWN).waited_seconds == pytest.approx(100)

    def test_the_wait_of_a_job_that_ran_begins_when_that_is_seen_and_is_not_one_for_gpus(self) -> None:
        running = a_job().placed("n1", at=NOW - 60).running(since=NOW - 30).record
        waits = self.reconciled(running, lane=None).job
        assert waits.status.waiting is not None
        assert waits.status.waiting.since == format_time(NOW)
        granted = self.reconciled(waits, lane=0)
        assert job_write(waits, granted, (), NOTHING_KNOWN).waited_seconds is None

    def test_a_moment_in_which_a_worker_does_not_seem_to_run_does_not_begin_another_wait(self) -> None:
        running = a_job().placed("n1", at=NOW - 60).running(since=NOW - 30)
        waits = running.after(transitions.kept_from_gpus, WAITING_FOR_LANE, "no lane", NOW - 20).record
        flickered = reconciled_job_of(waits, a_pod(waits).bound().record).job
        again = self.reconciled(flickered, lane=None).job.status.waiting
        assert again is not None
        assert (again.reason, again.since) == ("WaitingForLane", format_time(NOW - 20))
