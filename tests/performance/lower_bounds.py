"""Lower bounds of a trace's average JCT for any schedule, even one that knows everything in advance.

The larger of two relaxations counts. *Alone*: every job starts when it is submitted, as if the cluster were infinite. *Pooled*:
all GPUs are one machine that one job can use whole, however many GPUs it requests; on one machine, shortest remaining work
first has the least average (Schrage, 1968). With sharing, each kind of resource of the GPUs is a machine of its own, and a job
ends when its work on all of them is done: the pooled bound is that of the scarcest resource.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from laneway.simulator import TraceJob


def alone_seconds(trace: Sequence[TraceJob]) -> float:
    """Return the average JCT if no job had to wait for another."""
    return sum(job.duration_seconds for job in trace) / len(trace)


def pooled_seconds(trace: Sequence[TraceJob], gpus: int) -> float:
    """Return the least average JCT on one machine as fast as all GPUs."""
    return _shortest_remaining_first(
        (job.submit_seconds, job.demand.gpus * job.duration_seconds / gpus) for job in trace
    )


def pooled_by_resource_seconds(trace: Sequence[TraceJob], gpus: int) -> float:
    """Return the least average JCT where jobs on a GPU overlap, by the resource for which it is the largest.

    Raises:
        ValueError: the trace does not say what a job's iterations spend where.
    """
    bounds = []
    for resource in range(4):
        work = []
        for job in trace:
            profile = job.profile
            if profile is None or profile.stages is None or not profile.iteration_seconds:
                raise ValueError(
                    f"job {job.key} has no stages: the bound with sharing needs them of every job"
                )
            busy_ratio = min(1.0, profile.stages[resource] / profile.iteration_seconds)
            work.append((job.submit_seconds, job.demand.gpus * job.duration_seconds * busy_ratio / gpus))
        bounds.append(_shortest_remaining_first(work))
    return max(bounds)


def _shortest_remaining_first(jobs: Iterable[tuple[float, float]]) -> float:
    """Return the average time from submission to finish on one machine.

    Args:
        jobs: submission and work, in seconds of the machine.
    """
    coming = sorted(jobs)
    there: list[tuple[float, float]] = []
    now_seconds = total_seconds = 0.0
    at = 0
    while there or at < len(coming):
        if not there:
            now_seconds = max(now_seconds, coming[at][0])
        while at < len(coming) and coming[at][0] <= now_seconds:
            heapq.heappush(there, (coming[at][1], coming[at][0]))
            at += 1
        left_seconds, submitted = heapq.heappop(there)
        until = coming[at][0] if at < len(coming) else float("inf")
        if now_seconds + left_seconds <= until:
            now_seconds += left_seconds
            total_seconds += now_seconds - submitted
        else:
            heapq.heappush(there, (left_seconds - (until - now_seconds), submitted))
            now_seconds = until
    return total_seconds / len(coming)
