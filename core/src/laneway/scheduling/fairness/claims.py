"""When a job has had so little of the time that it goes first, and for how long.

An order policy such as least attained service may pass a job over indefinitely. Under processor sharing it would run for its *fair
share* of the time, and a job of work x would end after x / (1 - load) on average (Kleinrock, Queueing Systems II, section 4.4).
So every job is guaranteed a part of that: ``share`` of the time in which it could compete (:mod:`.contention`). What is missing
is owed to it. A waiting job that is owed a *quantum* goes first, and runs until nothing is owed.

The quantum is ten times what a preemption costs the job, so the preemptions that give and take it cost at most a tenth of it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from laneway.scheduling.model.snapshot import Job, JobState

LONGEST_QUANTUM_SECONDS = 3600.0
"""The longest time for which a job runs ahead of its equals because it was owed time. Others may wait as long."""

_COST_FACTOR = 10.0
"""The quantum over the cost of a preemption: at most a tenth of the run time is lost."""

_SLACK_SECONDS = 1e-3
"""The rounding error of a sum of floats against the announced time."""


class Claim(NamedTuple):
    """Whether a job goes before its equals, of its priority, and until when that holds if nothing else changes."""

    first: bool
    until_seconds: float = math.inf


NO_CLAIM = Claim(first=False)
_WAITS_FIRST = Claim(first=True)


def quantum_seconds(preemption_cost_seconds: float) -> float:
    """Return the run time that a job must be owed to go first, from what a preemption costs it."""
    return _COST_FACTOR * preemption_cost_seconds


def claim(job: Job, share: float, quantum: float, now_seconds: float) -> Claim:
    """Return a job's claim.

    Args:
        job: any.
        share: the part of the time that it is guaranteed, 0 to 1.
        quantum: see :func:`quantum_seconds`.
        now_seconds: the moment.
    """
    if job.state is JobState.RUNNING:
        return _while_running(job, share, quantum, now_seconds)
    if not job.competes:
        return NO_CLAIM
    since_seconds = first_since_seconds(job, share, quantum)
    # A wait that begins later than now, as the clock was set back, takes nothing from earlier ones.
    if since_seconds <= max(now_seconds, job.competes_since_seconds):
        return _WAITS_FIRST
    return NO_CLAIM if since_seconds == math.inf else Claim(False, since_seconds)


def first_since_seconds(job: Job, share: float, quantum: float) -> float:
    """Return when a job that competes is owed a quantum; infinite: never. For the arguments see :func:`claim`."""
    if share <= 0:
        return math.inf
    waits_until = (quantum + (1 - share) * job.executed_seconds) / share - job.waited_before_seconds
    return job.competes_since_seconds + waits_until


def _while_running(job: Job, share: float, quantum: float, now_seconds: float) -> Claim:
    started_seconds = job.created_seconds if job.started_seconds is None else job.started_seconds
    ran_before_seconds = job.ran_seconds(now_seconds) - max(0.0, now_seconds - started_seconds)
    owed_at_start = share * job.waited_before_seconds - (1 - share) * ran_before_seconds
    if owed_at_start < quantum / 2:
        return NO_CLAIM  # it did not start because it was owed a quantum; the share may have changed a little since
    until_seconds = started_seconds + max(quantum, LONGEST_QUANTUM_SECONDS)
    if share < 1:
        counted_seconds = now_seconds if job.as_of_seconds is None else job.as_of_seconds
        due_seconds = share * job.waited_before_seconds / (1 - share) - job.executed_seconds
        until_seconds = min(until_seconds, counted_seconds + due_seconds)
    return NO_CLAIM if until_seconds - now_seconds <= _SLACK_SECONDS else Claim(True, until_seconds)
