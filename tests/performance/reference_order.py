"""The order policies of the reference simulators; each difference from our policies can be switched on separately.

With all differences on, our simulator gives the reference's figures, so these differences explain why ours differ. The classes
are not policies of the product: they keep lists from one decision to the next, and two of the differences are defects. They
follow ``dlas_sim_jobs`` in Tiresias' and Muri's ``simulator/run_sim.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

from laneway.scheduling import Job, JobState
from laneway.scheduling.order.policy import Rank

THRESHOLDS_GPU_SECONDS = (3250.0, 7200.0)
_SLACK = 1e-3
"""Seconds, or GPU-seconds, that a sum of floats may fall short by."""


class ReferenceOrder:
    """Queues by attained service, each a list.

    A new job goes to the end of the first list. A job that exceeds its list's limit goes to the end of the next list, even
    while it runs, and so behind the jobs that wait there. After each decision running jobs move to the front, so a preempted
    job goes before the jobs that waited already.
    """

    relative = True
    preempts_by_queue = False
    bounds_waiting = False
    interval_seconds = math.inf

    def __init__(
        self, *, mixes_seconds_into_gpu_seconds: bool, index: Callable[[float], float] | None = None
    ) -> None:
        """Prepare an order.

        Args:
            mixes_seconds_into_gpu_seconds: whether the moment at which a running job leaves its queue is computed from its
                executed seconds instead of its GPU-seconds (Tiresias' simulator does; Muri's no longer does).
            index: a Gittins index by attained GPU-seconds; the largest goes first within a queue. None: the lists decide.
        """
        self._mixes = mixes_seconds_into_gpu_seconds
        self._index = index
        self._lists: list[list[str]] = [[] for _ in range(len(THRESHOLDS_GPU_SECONDS) + 1)]
        self._queues: dict[str, int] = {}
        self._moment_seconds = -math.inf

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return each job's list, and its place there."""
        by_arrival = sorted(jobs, key=_arrival)
        if now_seconds > self._moment_seconds:
            self._moment_seconds = now_seconds
            self._go_on(by_arrival, now_seconds)
        places = {key: place for members in self._lists for place, key in enumerate(members)}
        return {
            job.key: Rank(
                self._queues[job.key],
                (float(places[job.key]),),
                until_seconds=self._outgrows_seconds(job, now_seconds),
            )
            for job in by_arrival
        }

    def may_preempt(self, waiting: Rank, running: Rank) -> bool:
        """Return whether the waiting job is before the running one in the order, in the same queue too."""
        return (waiting.queue, waiting.position) < (running.queue, running.position)

    def blocks_later_jobs(self, job: Job, rank: Rank, now_seconds: float) -> bool:
        """Return False: every job that fits may pass."""
        return False

    def _go_on(self, by_arrival: list[Job], now_seconds: float) -> None:
        """Bring the lists from what they were before the last decision to what they are before this one."""
        jobs = {job.key: job for job in by_arrival}
        for members in self._lists:
            members[:] = [key for key in members if key in jobs]
            members.sort(key=lambda key: jobs[key].state is not JobState.RUNNING)
        for job in by_arrival:
            if job.key not in self._queues:
                self._queues[job.key] = 0
                self._lists[0].append(job.key)
            elif job.state is JobState.RUNNING:
                self._outgrow(job, now_seconds)
        if self._index is not None:
            for members in self._lists:
                members.sort(key=lambda key: self._by_index(jobs[key], now_seconds))

    def _outgrow(self, job: Job, now_seconds: float) -> None:
        """Move a job one queue down if it has outgrown its own; by one only, at each decision."""
        queue = self._queues[job.key]
        if queue == len(THRESHOLDS_GPU_SECONDS):
            return
        if job.service_gpu_seconds(now_seconds) + _SLACK >= THRESHOLDS_GPU_SECONDS[queue]:
            self._lists[queue].remove(job.key)
            self._lists[queue + 1].append(job.key)
            self._queues[job.key] = queue + 1

    def _outgrows_seconds(self, job: Job, now_seconds: float) -> float:
        """Return when the reference looks again, if nothing else happens before."""
        queue = self._queues[job.key]
        if job.state is not JobState.RUNNING or queue == len(THRESHOLDS_GPU_SECONDS):
            return math.inf
        limit, gpus = THRESHOLDS_GPU_SECONDS[queue], job.demand.gpus
        if self._mixes:
            return now_seconds + (limit - job.ran_seconds(now_seconds) + _SLACK) // gpus
        return now_seconds + (limit - job.service_gpu_seconds(now_seconds)) / gpus

    def _by_index(self, job: Job, now_seconds: float) -> tuple[float, float]:
        assert self._index is not None
        return (-self._index(round(job.service_gpu_seconds(now_seconds), 3)), job.created_seconds)


def _arrival(job: Job) -> tuple[float, int, str]:
    """Return what sorts jobs as the trace lists them: its names are numbers."""
    name = job.key.rpartition("/")[2]
    return (job.created_seconds, int(name) if name.isdigit() else 0, name)
