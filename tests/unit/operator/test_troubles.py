"""What becomes of a job when something goes wrong around it: nodes lost, failures again and again, a spec that became wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.operator import transitions
from laneway.operator.cache import ClusterView
from laneway.operator.lifecycle import advance
from laneway.operator.records.job_record import JobRecord, parse_job
from laneway.scheduling import JobState

from tests.unit.operator.builders import (
    NOW,
    PATIENCE,
    JobBuilder,
    a_gpu_node,
    a_job,
    a_node,
    a_pod,
    a_session,
    a_view,
    advanced,
    condition_of,
    decided,
    facts_of,
)

REMOVAL_SECONDS = PATIENCE.lost_node_removal_seconds


def lost_for(seconds: float) -> ClusterView:
    return a_view(gpu_nodes=[a_gpu_node("n1")], nodes=[a_node("n1", ready=False, since=NOW - seconds)])


@pytest.mark.parametrize(
    ("lost_seconds", "forsaken"), [(REMOVAL_SECONDS - 1, False), (REMOVAL_SECONDS, True)]
)
def test_a_worker_is_removed_from_a_node_that_was_lost_for_long(lost_seconds: float, forsaken: bool) -> None:
    job = a_job().placed("n1").running().after(transitions.unplaced, "NodeLost", "m", NOW - 9, NOW - 9).record
    pod = a_pod(JobBuilder("job").placed("n1").record, attempt=1).running().deleting().record
    standing = advanced(job, pod, view=lost_for(lost_seconds))
    assert [each.uid for each in standing.forsaken] == ([pod.uid] if forsaken else [])
    assert standing.job.status.waiting is not None
    assert standing.job.status.waiting.reason == "WorkersEnding"
    if not forsaken:
        assert standing.due_seconds == NOW + 1


def test_a_worker_on_a_node_that_is_there_is_left_to_its_kubelet() -> None:
    job = a_job().placed("n1").running().after(transitions.unplaced, "Preempted", "m", NOW, NOW).record
    pod = a_pod(JobBuilder("job").placed("n1").record, attempt=1).running().deleting().record
    assert advanced(job, pod).forsaken == ()


def test_a_worker_on_a_lost_node_is_asked_to_end_before_it_is_removed() -> None:
    job = a_job().placed("n1").running().record
    pod = a_pod(job).running().record
    standing = advanced(job, pod, view=lost_for(REMOVAL_SECONDS * 10))
    assert condition_of(standing.job.status, "Placed") == ("False", "NodeLost")
    assert standing.doomed == (pod,)
    assert standing.forsaken == ()


def failing(times: int, last: float = NOW - 60) -> JobRecord:
    """A job whose worker has failed on n1 so often before, and runs there again."""
    builder = a_job().visited()
    for _ in range(times):
        builder = builder.after(transitions.failed_on, "n1", last)
    return builder.placed("n1").running().record


def test_a_node_on_which_it_fails_again_and_again_is_kept_away_from_ever_longer() -> None:
    for times, seconds in ((0, None), (1, 120), (2, 240)):
        job = failing(times)
        standing = advanced(job, a_pod(job).ended(code=1).record)
        avoid = standing.job.status.avoid
        assert [each.node for each in avoid] == ([] if seconds is None else ["n1"]), times
        assert standing.job.status.failures[0].count == times + 1
        if seconds is not None:
            assert f"for {seconds} s" in standing.happenings[-1].message


def test_failures_long_ago_have_nothing_to_do_with_this_one() -> None:
    job = failing(5, last=NOW - 4000)
    standing = advanced(job, a_pod(job).ended(code=1).record)
    assert [each.count for each in standing.job.status.failures] == [1]
    assert not standing.job.status.avoid


class TestASpecThatBecameWrong:
    def job(self) -> JobRecord:
        raw = a_job().placed("n1").running().raw
        raw["spec"]["gpus"] = {"share": 0.5}

        return parse_job(raw)

    def test_its_gang_goes_on_and_is_followed(self) -> None:
        job, sound = self.job(), a_job().placed("n1").running().record
        pod = a_pod(sound).running().record
        standing = advanced(job, pod)
        assert condition_of(standing.job.status, "Admitted") == ("False", "InvalidSpec")
        assert condition_of(standing.job.status, "Running")[0] == "True"
        assert standing.state is None, "it cannot be planned with"
        assert standing.doomed == ()

    def test_its_end_is_noticed(self) -> None:
        sound = a_job().placed("n1").running().record
        status = advanced(self.job(), a_pod(sound).ended().record).job.status
        assert condition_of(status, "Succeeded")[0] == "True"

    def test_after_a_failure_it_waits_for_a_corrected_spec(self) -> None:
        sound = a_job().placed("n1").running().record
        standing = advanced(self.job(), a_pod(sound).ended(code=1).record)
        assert condition_of(standing.job.status, "Placed") == ("False", "WorkerFailed")
        assert condition_of(standing.job.status, "Failed")[0] == "False"
        assert standing.doomed, "what is not placed has no pods"

    def test_nobody_else_gets_its_gpu(self) -> None:
        sound = a_job().placed("n1").running().record
        pod = a_pod(sound).running().record
        node = a_gpu_node("n1", gpus=1, sessions={0: [a_session(pod)]})
        view = a_view([self.job(), a_job("new").visited().record], [pod], [node])
        assert not decided(view).plan.starts


class TestWhoHadSucceededBeforeItWasToldToMakeWay:
    def preempted(self) -> JobBuilder:
        return a_job().placed("n1").running().after(transitions.preempted, "HigherPriority", "m", NOW - 10)

    @pytest.mark.parametrize(
        ("ended", "code", "want"),
        [
            (NOW - 12, 0, "True"),
            (NOW - 10, 0, "False"),  # in the same second: it may have been told to end, and ended well
            (NOW - 5, 0, "False"),
            (NOW - 12, 143, "False"),
        ],
    )
    def test_it_has_succeeded(self, ended: float, code: int, want: str) -> None:
        pod = a_pod(JobBuilder("job").placed("n1").record, attempt=1).ended(code, at=ended).record
        standing = advanced(self.preempted().record, pod)
        assert condition_of(standing.job.status, "Succeeded")[0] == want
        assert (pod in standing.doomed) is (want == "False"), "its logs stay"

    def test_not_when_only_some_workers_have(self) -> None:
        job = a_job().gang(2).placed("n1", "n1").running()
        record = job.after(transitions.preempted, "HigherPriority", "m", NOW - 10).record
        placed = a_job().gang(2).placed("n1", "n1").record
        pod = a_pod(placed, 0, attempt=1).ended(at=NOW - 12).record
        assert condition_of(advanced(record, pod).job.status, "Succeeded")[0] == "False"


def test_a_template_that_the_api_server_refuses_is_not_planned_with() -> None:

    job = a_job().visited().record
    facts = facts_of(a_view())
    standing = advance(job, (), replace(facts, template_refusals={(job.uid, 1): "imagePullPolicy: no"}))
    assert condition_of(standing.job.status, "Admitted") == ("False", "InvalidTemplate")
    assert standing.state is None
    assert advance(standing.job, (), facts).state is JobState.WAITING, "once it is taken it may be scheduled"
