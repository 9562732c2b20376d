"""What becomes of a job when something goes wrong around it: nodes lost, failures again and again, a spec that became wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.api.attempt_status import AttemptOutcome
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.reconcile import reconcile
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.job_record import JobRecord, parse_job
from laneway.scheduling import JobState

from tests.unit.operator.builders import (
    NOW,
    TIMEOUTS,
    JobBuilder,
    a_gpu_node,
    a_job,
    a_node,
    a_pod,
    a_session,
    a_view,
    condition_of,
    context_of,
    decided,
    reconciled_job_of,
)

REMOVAL_SECONDS = TIMEOUTS.lost_node_removal_seconds


def lost_for(seconds: float) -> ClusterState:
    return a_view(gpu_nodes=[a_gpu_node("n1")], nodes=[a_node("n1", ready=False, since=NOW - seconds)])


@pytest.mark.parametrize(
    ("lost_seconds", "pods_to_force_delete"), [(REMOVAL_SECONDS - 1, False), (REMOVAL_SECONDS, True)]
)
def test_a_worker_is_removed_from_a_node_that_was_lost_for_long(
    lost_seconds: float, pods_to_force_delete: bool
) -> None:
    job = (
        a_job()
        .placed("n1")
        .running()
        .after(transitions.unplaced, AttemptOutcome.DISRUPTED, "NodeLost", "m", NOW - 9, NOW - 9)
        .record
    )
    pod = a_pod(JobBuilder("job").placed("n1").record, attempt=1).running().deleting().record
    reconciled = reconciled_job_of(job, pod, view=lost_for(lost_seconds))
    assert [each.uid for each in reconciled.pods_to_force_delete] == (
        [pod.uid] if pods_to_force_delete else []
    )
    assert reconciled.job.status.waiting is not None
    assert reconciled.job.status.waiting.reason == "WorkersEnding"
    if not pods_to_force_delete:
        assert reconciled.due_seconds == NOW + 1


def test_a_worker_on_a_node_that_is_there_is_left_to_its_kubelet() -> None:
    job = (
        a_job()
        .placed("n1")
        .running()
        .after(transitions.unplaced, AttemptOutcome.PREEMPTED, "Preempted", "m", NOW, NOW)
        .record
    )
    pod = a_pod(JobBuilder("job").placed("n1").record, attempt=1).running().deleting().record
    assert reconciled_job_of(job, pod).pods_to_force_delete == ()


def test_a_worker_on_a_lost_node_is_asked_to_end_before_it_is_removed() -> None:
    job = a_job().placed("n1").running().record
    pod = a_pod(job).running().record
    reconciled = reconciled_job_of(job, pod, view=lost_for(REMOVAL_SECONDS * 10))
    assert condition_of(reconciled.job.status, "Placed") == ("False", "NodeLost")
    assert reconciled.pods_to_delete == (pod,)
    assert reconciled.pods_to_force_delete == ()


def failing(times: int, last: float = NOW - 60) -> JobRecord:
    """A job whose worker has failed on n1 so often before, and runs there again."""
    builder = a_job().visited()
    for _ in range(times):
        builder = builder.after(transitions.failed_on, "n1", last)
    return builder.placed("n1").running().record


def test_a_node_on_which_it_fails_again_and_again_is_kept_away_from_ever_longer() -> None:
    for times, seconds in ((0, None), (1, 120), (2, 240)):
        job = failing(times)
        reconciled = reconciled_job_of(job, a_pod(job).ended(code=1).record)
        avoid = reconciled.job.status.avoid
        assert [each.node for each in avoid] == ([] if seconds is None else ["n1"]), times
        assert reconciled.job.status.failures[0].count == times + 1
        if seconds is not None:
            assert f"for {seconds} s" in reconciled.events[-1].message


def test_failures_long_ago_have_nothing_to_do_with_this_one() -> None:
    job = failing(5, last=NOW - 4000)
    reconciled = reconciled_job_of(job, a_pod(job).ended(code=1).record)
    assert [each.count for each in reconciled.job.status.failures] == [1]
    assert not reconciled.job.status.avoid


class TestASpecThatBecameWrong:
    def job(self) -> JobRecord:
        raw = a_job().placed("n1").running().raw
        raw["spec"]["gpus"] = {"share": 0.5}

        return parse_job(raw)

    def test_its_gang_goes_on_and_is_followed(self) -> None:
        job, sound = self.job(), a_job().placed("n1").running().record
        pod = a_pod(sound).running().record
        reconciled = reconciled_job_of(job, pod)
        assert condition_of(reconciled.job.status, "Accepted") == ("False", "InvalidSpec")
        assert condition_of(reconciled.job.status, "Running")[0] == "True"
        assert reconciled.state is None, "it cannot be planned with"
        assert reconciled.pods_to_delete == ()

    def test_its_end_is_noticed(self) -> None:
        sound = a_job().placed("n1").running().record
        status = reconciled_job_of(self.job(), a_pod(sound).ended().record).job.status
        assert condition_of(status, "Complete")[0] == "True"

    def test_after_a_failure_it_waits_for_a_corrected_spec(self) -> None:
        sound = a_job().placed("n1").running().record
        reconciled = reconciled_job_of(self.job(), a_pod(sound).ended(code=1).record)
        assert condition_of(reconciled.job.status, "Placed") == ("False", "WorkerFailed")
        assert condition_of(reconciled.job.status, "Failed")[0] == "False"
        assert reconciled.pods_to_delete, "what is not placed has no pods"

    def test_nobody_else_gets_its_gpu(self) -> None:
        sound = a_job().placed("n1").running().record
        pod = a_pod(sound).running().record
        node = a_gpu_node("n1", gpus=1, sessions={0: [a_session(pod)]})
        view = a_view([self.job(), a_job("new").visited().record], [pod], [node])
        assert not decided(view).decision.starts


class TestAJobThatHadSucceededBeforeItWasPreempted:
    def preempted(self) -> JobBuilder:
        return a_job().placed("n1").running().after(transitions.preempted, "HigherPriority", "m", NOW - 10)

    @pytest.mark.parametrize(
        ("ended", "code", "want"),
        [
            (NOW - 12, 0, "True"),
            (NOW - 10, 0, "False"),  # in the same second: it may have been deleted and ended well
            (NOW - 5, 0, "False"),
            (NOW - 12, 143, "False"),
        ],
    )
    def test_it_has_succeeded(self, ended: float, code: int, want: str) -> None:
        pod = a_pod(JobBuilder("job").placed("n1").record, attempt=1).ended(code, at=ended).record
        reconciled = reconciled_job_of(self.preempted().record, pod)
        assert condition_of(reconciled.job.status, "Complete")[0] == want
        assert (pod in reconciled.pods_to_delete) is (want == "False"), "its logs stay"

    def test_not_when_only_some_workers_have(self) -> None:
        job = a_job().gang(2).placed("n1", "n1").running()
        record = job.after(transitions.preempted, "HigherPriority", "m", NOW - 10).record
        placed = a_job().gang(2).placed("n1", "n1").record
        pod = a_pod(placed, 0, attempt=1).ended(at=NOW - 12).record
        assert condition_of(reconciled_job_of(record, pod).job.status, "Complete")[0] == "False"


def test_a_template_that_the_api_server_refuses_is_not_planned_with() -> None:

    job = a_job().visited().record
    context = context_of(a_view())
    reconciled = reconcile(job, (), replace(context, template_refusals={(job.uid, 1): "imagePullPolicy: no"}))
    assert condition_of(reconciled.job.status, "Accepted") == ("False", "InvalidTemplate")
    assert reconciled.state is None
    assert reconcile(reconciled.job, (), context).state is JobState.WAITING, (
        "once it is taken it may be scheduled"
    )


def claiming(**template: object) -> dict[str, object]:
    trainer = {"name": "trainer", "image": "i", "env": template.pop("env", None)}
    trainer["volumeMounts"] = template.pop("mounts", None)
    return {"spec": {"containers": [trainer]}, **template}


@pytest.mark.parametrize(
    ("template", "says"),
    [
        (
            claiming(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
            "template.spec.containers[0].env sets NVIDIA_VISIBLE_DEVICES, which is reserved: leave it out",
        ),
        # Stored before the CRD refused it.
        (
            claiming(metadata={"annotations": {"laneway.dev/profile": "{}"}}),
            "template.metadata.annotations has laneway.dev/profile, which only Laneway's operator writes: leave it out",
        ),
        (
            claiming(mounts=[{"name": "own", "mountPath": "/run/laneway"}]),
            "template.spec: the trainer mounts a volume at /run/laneway, where it has Laneway's client",
        ),
    ],
)
def test_a_template_that_sets_what_is_reserved_is_refused_at_once(
    template: dict[str, object], says: str
) -> None:
    reconciled = reconcile(a_job().spec(template=template).record, (), context_of(a_view()))
    assert condition_of(reconciled.job.status, "Accepted") == ("False", "InvalidTemplate")
    waiting = reconciled.job.status.waiting
    assert waiting is not None
    assert says in waiting.message
    assert waiting.unblock == "Correct the template."
    assert reconciled.state is None, "no pod is tried"


def test_a_job_that_runs_by_such_a_template_runs_on() -> None:
    """An earlier operator took it."""
    template = claiming(env=[{"name": "LANEWAY_JOB", "value": "x"}])
    job = a_job().spec(template=template).placed("n1").running().record
    reconciled = reconciled_job_of(job, a_pod(job).running().record)
    assert condition_of(reconciled.job.status, "Placed")[0] == "True"
    assert not reconciled.pods_to_delete
