"""One pass over the jobs in one mode: submits them, follows them to their ends, and says what became of each."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from laneway.api.rfc3339 import parse_time

from hack.cluster.progress import ClusterError, report
from hack.demo.jobs import JobView
from hack.demo.output import Outputs
from tests.performance.real_workload.live_cluster import LiveCluster
from tests.performance.sharing.figures import JobRun
from tests.performance.sharing.workload import SharingJob

_BETWEEN_SUBMISSIONS_SECONDS = 1.0
_TIMEOUT_SECONDS = 1200.0
_SAY_SECONDS = 30.0


def run_phase(
    cluster: LiveCluster, jobs: Sequence[SharingJob], *, keeps_templates: bool = False
) -> list[JobRun]:
    """Run jobs and delete them. What was learnt of their templates before is deleted, so that each phase begins without knowledge.

    Args:
        cluster: where they run.
        jobs: by submission.
        keeps_templates: that nothing is deleted.

    Raises:
        ClusterError: a job failed, or they took too long.
    """
    if not keeps_templates:
        profiles = ("delete", "trainingprofiles", "--all", "--namespace", cluster.namespace)
        cluster.kubectl.run(
            *profiles
        )  # an operator that ended with the last phase may have written them again
    outputs = Outputs(cluster.api, cluster.namespace)
    submitted: dict[str, float] = {}
    for job in jobs:
        submitted[job.name] = cluster.submit(job)
        outputs.follow(cluster.jobs.pods())
        time.sleep(_BETWEEN_SUBMISSIONS_SECONDS)
    said_seconds = time.monotonic()

    def look(views: Mapping[str, JobView]) -> None:
        nonlocal said_seconds
        outputs.follow(cluster.jobs.pods())
        if time.monotonic() - said_seconds >= _SAY_SECONDS:
            said_seconds = time.monotonic()
            ended, running = (
                sum(view.ended for view in views.values()),
                sum(view.has("Running") for view in views.values()),
            )
            report(f"{ended} of {len(jobs)} have ended, {running} run")

    views = cluster.wait([job.name for job in jobs], lambda view: view.ended, _TIMEOUT_SECONDS, look)
    outputs.settle()
    events = job_events(cluster)
    runs = [_run_of(job, views[job.name], submitted[job.name], outputs, events) for job in jobs]
    cluster.jobs.delete_all()
    return runs


def _run_of(
    job: SharingJob, view: JobView, submit_seconds: float, outputs: Outputs, events: Sequence[dict[str, Any]]
) -> JobRun:
    attempts = [output.events for output in outputs.attempts(job.name)]
    said = [each for attempt in attempts for each in attempt]
    if not said or said[-1]["event"] != "end":
        raise ClusterError(
            f"{job.name} did not print its end: {[output.lines[-3:] for output in outputs.attempts(job.name)]}"
        )
    assert view.status.completion_time is not None
    return JobRun(
        name=job.name,
        group=job.group,
        kind=job.kind,
        steps=job.steps,
        submit_seconds=submit_seconds,
        placed_seconds=[
            parse_time(event["eventTime"])
            for event in events
            if event["regarding"]["name"] == job.name and event["reason"] == "Placed"
        ],
        start_seconds=next(each["seconds"] for each in said if each["event"] == "start"),
        end_seconds=said[-1]["seconds"],
        completed_seconds=parse_time(view.status.completion_time),
        cpu_seconds=sum(each.get("cpu_seconds", 0.0) for each in said),
        gpus=[each["gpu"] for each in said if each["event"] == "first"],
        progress=[(each["seconds"], each["step"]) for each in said if "step" in each],
        events=[
            f"{event['reason']}: {event.get('note', '')}"
            for event in events
            if event["regarding"]["name"] == job.name and event["reason"] not in ("Placed", "Completed")
        ],
        profile=view.status.profile,
    )


def job_events(cluster: LiveCluster) -> list[dict[str, Any]]:
    """Return the events of all jobs in the order in which they happened."""
    events = cluster.api.items(f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events")
    return sorted(
        (each for each in events if each["regarding"].get("kind") == "TrainingJob" and each.get("eventTime")),
        key=lambda each: each["eventTime"],
    )
