"""The workload for real: each job submitted at its time, and all of them followed to their ends."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from hack.cluster.progress import report
from hack.demo.jobs import JobView
from tests.performance.real_workload.live_cluster import LiveCluster, Submitted

_END_SECONDS = 1800.0
_SAY_SECONDS = 30.0


class Timed(Submitted, Protocol):
    """A job that is submitted at a time."""

    @property
    def name(self) -> str:
        """Of the TrainingJob."""
        ...

    @property
    def submit_seconds(self) -> float:
        """Since the first submission."""
        ...


def run_workload(cluster: LiveCluster, workload: Sequence[Timed]) -> None:
    """Submit the jobs and wait for their ends.

    Raises:
        ClusterError: one failed, or they took too long.
    """
    began = time.monotonic()
    progress = _Progress()
    for job in workload:
        time.sleep(max(0.0, began + job.submit_seconds - time.monotonic()))
        cluster.submit(job)
    report(f"all {len(workload)} are submitted")
    cluster.wait([job.name for job in workload], lambda job: job.ended, _END_SECONDS, progress.look)


class _Progress:
    """Says now and then how many have ended."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def look(self, views: Mapping[str, JobView]) -> None:
        """See the jobs."""
        if time.monotonic() - self._said >= _SAY_SECONDS:
            self._said = time.monotonic()
            ended = sum(view.ended for view in views.values())
            running = sum(view.has("Running") for view in views.values())
            preemptions = sum(view.status.preemptions for view in views.values())
            report(f"{ended} of {len(views)} have ended, {running} run; {preemptions} preemptions so far")
