"""Measures how fast jobs run beside others, from the iterations that their nodes count.

A node reports the number of iterations of each session, with the time of the report. Between two reports, while the same jobs are on a
job's GPUs, their difference is the job's pace. Over its pace alone it is the speed that the scheduler compares with what it predicted.
Short jobs that come and go would leave no time long enough, so times beside jobs of the same templates are added up.

The pace alone is that of times in which a job of the template shared no GPU, on GPUs of the same models: their median, as a job that
evaluates for a while iterates less. Until there was one, it is the shortest iteration that such a job reported, loading data included.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

from laneway.api.training_job_status import ProfileStatus
from laneway.operator.cycle.templates import template_of
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.pacing import SPEED_ITERATIONS, SPEED_SECONDS, STARTING_NEIGHBOUR_SECONDS
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.sessions import Hold, measured_profile
from laneway.scheduling import JobState

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_MOST_KINDS = 4096

_MOST_ALONE = 5
"""The last paces of a template alone that count."""

_IDLE_ITERATIONS = 20
_LEAST_IDLE_SECONDS = 10.0
"""A job that ends no iteration for so many of its iterations alone, and for this time at least, does not train meanwhile: it evaluates, or
saves its work. The jobs on a GPU are too few to slow it like that."""

_MOST_SUMS = 16
"""The most templates beside a job whose times are added up; older ones are dropped."""

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

    templates: tuple[str, ...] = ()
    """Of the sharers, in order."""


@dataclass(frozen=True, slots=True)
class MeasuredSpeed:
    """A job's speed beside others; 1 is its speed alone."""

    ratio: float
    sharers: frozenset[str]


@dataclass(slots=True)
class _Sum:
    """What was counted beside jobs of the same templates since the last measurement."""

    iterations: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class _Counted:
    """What was counted of an attempt of a job."""

    attempt: int
    last: Count | None = None
    """None: what comes next follows no other count."""

    idle_seconds: float = 0.0
    """For how long it has ended no iteration."""

    sums: dict[tuple[str, ...], _Sum] = field(default_factory=dict)
    """By the templates of the sharers."""


class SpeedBook:
    """Counts of running jobs, and the paces of templates alone, by the models of the GPUs."""

    def __init__(self) -> None:
        self._counted: dict[str, _Counted] = {}
        """By uid."""

        self._alone_seconds: dict[_Kind, deque[float]] = {}
        """The times of an iteration while no other job shared the GPUs."""

        self._shortest_seconds: dict[_Kind, float] = {}
        """The shortest mean time of an iteration that was reported."""

    def forget(self, uid: str) -> None:
        """Forget a job that is gone."""
        self._counted.pop(uid, None)

    def interrupt(self, uid: str) -> None:
        """Note that a job does not run, or that what is counted of it says nothing for a while."""
        counted = self._counted.get(uid)
        if counted is not None:
            counted.last = None

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
        alone_seconds = self._pace_alone(kind)
        found = self._added(uid, count, alone_seconds)
        if found.iterations < SPEED_ITERATIONS or found.seconds < SPEED_SECONDS:
            return None
        del self._counted[uid].sums[count.templates]
        if not count.sharers:
            paces = self._alone_seconds.get(kind, deque[float](maxlen=_MOST_ALONE))
            paces.append(found.seconds / found.iterations)
            _remember(self._alone_seconds, kind, paces)
            return None
        if not alone_seconds:
            return None
        return MeasuredSpeed(min(1.0, found.iterations * alone_seconds / found.seconds), count.sharers)

    def _pace_alone(self, kind: _Kind) -> float | None:
        paces = self._alone_seconds.get(kind)
        return median(paces) if paces else self._shortest_seconds.get(kind)

    def _added(self, uid: str, count: Count, alone_seconds: float | None) -> _Sum:
        """Add up what was counted since the last count, if the sharers are the same; return the sum beside jobs of their templates."""
        counted = self._counted.get(uid)
        if counted is None or counted.attempt != count.attempt:
            counted = self._counted[uid] = _Counted(count.attempt)
        last, counted.last = counted.last, count
        if last is not None and count.iterations < last.iterations:
            counted.sums.clear()  # another process counts now
            last = None
        found = counted.sums.get(count.templates, _Sum())
        if last is None or (last.sharers, last.models) != (count.sharers, count.models):
            counted.idle_seconds = 0.0
        else:
            idle_seconds, seconds = counted.idle_seconds, count.at_seconds - last.at_seconds
            counted.idle_seconds = idle_seconds + seconds if count.iterations == last.iterations else 0.0
            longest_seconds = max(_LEAST_IDLE_SECONDS, _IDLE_ITERATIONS * (alone_seconds or math.inf))
            if not counted.idle_seconds and idle_seconds < longest_seconds:
                found.iterations += count.iterations - last.iterations
                found.seconds += idle_seconds + seconds
        _remember(counted.sums, count.templates, found, _MOST_SUMS)
        return found

    def _note_profile(self, kind: _Kind, profile: ProfileStatus | None) -> None:
        if profile is not None and profile.iteration_microseconds:
            seconds = (profile.iteration_microseconds + profile.data_microseconds) / 1e6
            _remember(self._shortest_seconds, kind, min(seconds, self._shortest_seconds.get(kind, seconds)))


def count_of(reconciled: ReconciledJob, state: ClusterState) -> Count | None:
    """Return what nodes have counted of a job.

    None while it does not run, or where something else is on its GPUs, or while one of the jobs there has not trained: the time in
    which a job starts and imports its libraries says nothing about its speed, or that of others beside it. A job that does not train
    for longer may compute something else, so it counts then.
    """
    job = reconciled.job
    pods = [pod for pod in state.pods.get(job.uid, ()) if pod.attempt == job.status.attempt]
    holds = [[hold for hold in state.sessions.of(pod) if not hold.ended] for pod in pods]
    if reconciled.state is not JobState.RUNNING or not holds or not all(holds):
        return None
    mine = [hold for of_pod in holds for hold in of_pod]
    beside = _beside(mine, state)
    jobs = dict(_jobs_of(beside, job.uid, state))
    at_seconds = min(state.gpu_nodes[hold.node].observed_seconds for hold in mine)
    if "" in jobs or any(_starts(hold, job.uid, state, at_seconds) for hold in beside):
        return None
    return Count(
        at_seconds=at_seconds,
        iterations=min(hold.session.iterations for hold in mine),
        attempt=job.status.attempt,
        sharers=frozenset(jobs),
        models=frozenset(hold.gpu.model for hold in mine),
        templates=tuple(sorted(jobs.values())),
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


def _jobs_of(holds: Iterable[Hold], uid: str, state: ClusterState) -> Iterator[tuple[str, str]]:
    """Yield the keys and templates of other jobs that have these sessions; an empty key for what is no job."""
    for hold in holds:
        pod = state.pod_of(hold)
        if pod is None or pod.job_uid not in state.jobs:
            yield "", ""
        elif pod.job_uid != uid:
            job = state.jobs[pod.job_uid]
            yield job.key, template_of(job) or job.key


def _starts(hold: Hold, uid: str, state: ClusterState, now_seconds: float) -> bool:
    """Whether a session may still become one that trains; one of another job only for a while."""
    if hold.session.iterations:
        return False
    pod = state.pod_of(hold)
    if pod is None or pod.job_uid == uid or pod.started_seconds is None:
        return True
    return now_seconds < pod.started_seconds + STARTING_NEIGHBOUR_SECONDS


def _remember(known: dict[_Key, _Value], key: _Key, value: _Value, most: int = _MOST_KINDS) -> None:
    """Note a value as the newest one; the oldest one gives way to it."""
    known.pop(key, None)
    known[key] = value
    if len(known) > most:
        del known[next(iter(known))]
