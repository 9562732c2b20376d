"""One pass over the jobs in one mode: submits them at their times, follows them to their ends, and says what became of each."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from laneway.api.rfc3339 import parse_time

from hack.cluster.progress import report
from hack.demo.jobs import JobView
from tests.performance.real_workload.live_cluster import LiveCluster
from tests.performance.rescaling.figures import JobRun, Rescale
from tests.performance.rescaling.workload import BenchJob

_TIMEOUT_SECONDS = 600.0
_SAY_SECONDS = 30.0


def run_phase(cluster: LiveCluster, jobs: Sequence[BenchJob]) -> list[JobRun]:
    """Run jobs and delete them. What was learnt of their templates before is deleted, so that each phase begins without knowledge.

    Raises:
        ClusterError: a job failed, or they took too long.
    """
    profiles = ("delete", "trainingprofiles", "--all", "--namespace", cluster.namespace)
    cluster.kubectl.run(*profiles)  # an operator that ended with the last phase may have written them again
    folder = _shared_folder(cluster)
    for job in jobs:
        (folder / job.name).mkdir(parents=True)
    seen = _Seen()
    submitted: dict[str, float] = {}
    began = time.monotonic()
    for job in jobs:
        while time.monotonic() < began + job.submit_seconds:
            seen.look(cluster.jobs.views())
            time.sleep(min(1.0, max(0.0, began + job.submit_seconds - time.monotonic())))
        submitted[job.name] = cluster.submit(job)
    names = [job.name for job in jobs]
    views = cluster.wait(names, lambda view: view.ended, _TIMEOUT_SECONDS, seen.look)
    runs = [
        _run_of(job, views[job.name], submitted[job.name], seen.rescales(job.name), folder) for job in jobs
    ]
    cluster.jobs.delete_all()
    return runs


class _Seen:
    """Remembers each rescale of each job, because a job's status has the last one only."""

    def __init__(self) -> None:
        self._rescales: dict[tuple[str, int], Rescale] = {}
        self._said = time.monotonic()

    def look(self, views: Mapping[str, JobView]) -> None:
        """See the jobs."""
        for view in views.values():
            last = view.status.rescale
            if last is not None:
                cost = None if last.cost_milliseconds is None else last.cost_milliseconds / 1000
                self._rescales[view.name, last.attempt] = Rescale(
                    last.attempt, last.from_workers, last.to_workers, cost
                )
        if time.monotonic() - self._said >= _SAY_SECONDS:
            self._said = time.monotonic()
            workers = ", ".join(
                f"{view.name} {len(view.status.placement)}" for view in views.values() if not view.ended
            )
            report(f"workers of those that have not ended: {workers}")

    def rescales(self, name: str) -> list[Rescale]:
        """Return the rescales of a job, in their order."""
        return [rescale for (job, _), rescale in sorted(self._rescales.items()) if job == name]


def _run_of(
    job: BenchJob, view: JobView, submit_seconds: float, rescales: Sequence[Rescale], folder: Path
) -> JobRun:
    assert view.status.completion_time is not None
    completed_seconds = parse_time(view.status.completion_time)
    if not job.gang:
        return JobRun(job.name, False, submit_seconds, completed_seconds)
    steps = list(_steps(folder / job.name / "steps"))
    sizes = {step["first"]: step["workers"] for step in steps}
    return JobRun(
        job.name,
        True,
        submit_seconds,
        completed_seconds,
        rescales,
        [workers for _, workers in sorted(sizes.items())],
        view.status.preemptions,
        json.loads((folder / job.name / "result").read_text(encoding="utf-8"))["accuracy"],
        len(steps) - len({step["step"] for step in steps}),
    )


def _steps(file: Path) -> Iterator[dict[str, int]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _shared_folder(cluster: LiveCluster) -> Path:
    """Return where this machine has the folder that all nodes share."""
    embedded = cluster.installation.target.embedded
    assert embedded is not None
    return embedded.cluster.shared_folder / cluster.namespace
