"""Measures how fast jobs run beside others, from the iterations that their nodes count.

A node reports the number of iterations of each session, with the time of the report. Between two reports, while the same jobs are on a
job's GPUs, their difference is the job's pace. Over its pace alone it is the speed that the scheduler compares with what it predicted.
The pace alone is that of a time in which a job of the template shared no GPU, on GPUs of the same models; until there was one, the
shortest iteration that such a job reported, loading data included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from laneway.api.training_job_status import ProfileStatus
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.pacing import SPEED_ITERATIONS, SPEED_SECONDS
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.sessions import Hold, measured_profile
from laneway.scheduling import JobState

_MOST_KINDS = 4096

_Kind = tuple[str, frozenset[str]]
"""A template, and the models of the GPUs."""


@dataclass(frozen=True, slots=True)
class Count:
    """What nodes have counted of a job."""

    at_seconds: float
    """The time of the oldest report among its nodes."""

    iterations: int
    """Of the worker that is behind."""

    attempt: int
    sharers: frozenset[str]
    """Keys of the other jobs on any of its GPUs."""

    models: frozenset[str]
    """Of its GPUs."""


@dataclass(frozen=True, slots=True)
class MeasuredSpeed:
    """A job's speed beside others; 1 is its speed alone."""

    ratio: float
    sharers: frozenset[str]


class SpeedBook:
    """Counts of running jobs, and the paces of templates alone, by the models of the GPUs."""

    def __init__(self) -> None:
        self._since: dict[str, Count] = {}
        """By uid: the first count with the present sharers, or the one at the last measurement."""

        self._alone_seconds: dict[_Kind, float] = {}
        """The time of an iteration while nobody shared the GPUs."""

        self._shortest_seconds: dict[_Kind, float] = {}
        """The shortest mean time of an iteration that was reported."""

    def forget(self, uid: str) -> None:
        """Forget a job that is gone, or does not run."""
        self._since.pop(uid, None)

    def note(
        self, uid: str, template: str, count: Count, profile: ProfileStatus | None
    ) -> MeasuredSpeed | None:
        """Note what nodes have counted; return the job's speed if enough was counted beside the same jobs.

        Args:
            uid: a running job.
            template: its template.
            count: what is counted now.
            profile: what its nodes measured; None: nothing yet.
        """
        kind = (template, count.models)
        self._note_profile(kind, profile)
        since = self._since.get(uid)
        if (
            since is None
            or (since.attempt, since.sharers) != (count.attempt, count.sharers)
            or count.iterations < since.iterations
        ):
            self._since[uid] = count
            return None
        iterations, seconds = count.iterations - since.iterations, count.at_seconds - since.at_seconds
        if iterations < SPEED_ITERATIONS or seconds < SPEED_SECONDS:
            return None
        self._since[uid] = count
        if not count.sharers:
            _remember(self._alone_seconds, kind, seconds / iterations)
            return None
        alone_seconds = self._alone_seconds.get(kind) or self._shortest_seconds.get(kind)
        if not alone_seconds:
            return None
        return MeasuredSpeed(min(1.0, iterations * alone_seconds / seconds), count.sharers)

    def _note_profile(self, kind: _Kind, profile: ProfileStatus | None) -> None:
        if profile is not None and profile.iteration_microseconds:
            seconds = (profile.iteration_microseconds + profile.data_microseconds) / 1e6
            _remember(self._shortest_seconds, kind, min(seconds, self._shortest_seconds.get(kind, seconds)))


def count_of(reconciled: ReconciledJob, state: ClusterState) -> Count | None:
    """Return what nodes have counted of a job.

    None while it does not run, or where something else is on its GPUs, or while one of the jobs there has not trained: the time in
    which a job starts and imports its libraries says nothing about its speed, or that of others beside it.
    """
    job = reconciled.job
    pods = [pod for pod in state.pods.get(job.uid, ()) if pod.attempt == job.status.attempt]
    holds = [[hold for hold in state.sessions.of(pod) if not hold.ended] for pod in pods]
    if reconciled.state is not JobState.RUNNING or not holds or not all(holds):
        return None
    mine = [hold for of_pod in holds for hold in of_pod]
    beside = _beside(mine, state)
    sharers = frozenset(_jobs_of(beside, job.uid, state))
    if "" in sharers or not all(hold.session.iterations for hold in beside):
        return None
    return Count(
        at_seconds=min(state.gpu_nodes[hold.node].observed_seconds for hold in mine),
        iterations=min(hold.session.iterations for hold in mine),
        attempt=job.status.attempt,
        sharers=sharers,
        models=frozenset(hold.gpu.model for hold in mine),
    )


def profile_now(reconciled: ReconciledJob, state: ClusterState) -> ProfileStatus | None:
    """Return what a job's nodes measure of its iterations now."""
    attempt = reconciled.job.status.attempt
    pods = (pod for pod in state.pods.get(reconciled.job.uid, ()) if pod.attempt == attempt)
    return measured_profile(pods, state.sessions)


def _beside(mine: list[Hold], state: ClusterState) -> list[Hold]:
    """Return the live sessions on the GPUs of these, themselves included."""
    gpus = {hold.gpu.uuid for hold in mine}
    return [
        hold
        for node in {hold.node for hold in mine}
        for hold in state.sessions.on(node)
        if hold.gpu.uuid in gpus and not hold.ended
    ]


def _jobs_of(holds: Iterable[Hold], uid: str, state: ClusterState) -> Iterator[str]:
    """Yield the keys of other jobs that have these sessions; an empty one for what is no job."""
    for hold in holds:
        pod = state.pod_of(hold)
        if pod is None or pod.job_uid not in state.jobs:
            yield ""
        elif pod.job_uid != uid:
            yield state.jobs[pod.job_uid].key


def _remember(times: dict[_Kind, float], kind: _Kind, seconds: float) -> None:
    times.pop(kind, None)
    times[kind] = seconds
    if len(times) > _MOST_KINDS:
        del times[next(iter(times))]
