"""Asks the API server whether it would take the pods of jobs that wait, before they get GPUs: a trial run of a creation.

A job that starts at once needs no trial: it is told by the real creation; after that was refused it is asked about, so that one whose pods will
never be taken does not get GPUs again and again only to lose them. Templates that are alike are asked about once, a few in a cycle, those of the
first in line. Only what is the template's own fault counts: a quota that is used up today is not, nor is a webhook that does not answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from itertools import islice

from laneway.api.clock_text import to_seconds
from laneway.api.training_job import ConditionType, WorkerPlacementStatus
from laneway.operator import transitions
from laneway.operator.manifests import worker_pod
from laneway.operator.records.job_record import JobRecord
from laneway.operator.refusals import RefusalReason
from laneway.operator.writer import Writer

_FIRST_IN_LINE = 64
_TRIALS_IN_A_CYCLE = 2
_AFTER_REFUSAL = (str(RefusalReason.POD_REFUSED), transitions.BACKING_OFF)

_SOMEWHERE = WorkerPlacementStatus(worker=0, node="somewhere", gpus=(), share_percent=1)

Trial = tuple[str, int]
"""A job's uid, and the generation of its spec."""


class TemplateTrials:
    """What the API server said of templates."""

    def __init__(self, writer: Writer, again_seconds: float) -> None:
        """Ask by ``writer``; a template that was refused is asked about again after so long."""
        self._writer = writer
        self._again_seconds = again_seconds
        self._refusals: dict[Trial, str] = {}
        self._asked_seconds: dict[Trial, float] = {}
        self._answers: dict[str, str] = {}

    @property
    def refusals(self) -> Mapping[Trial, str]:
        """By job uid and generation: why its pods would be refused."""
        return self._refusals

    async def ask(self, waiting: Iterable[str], jobs: Iterable[JobRecord], now_seconds: float) -> bool:
        """Ask about some templates; return whether a refusal is new, or is none any more.

        Args:
            waiting: keys of the jobs that wait, in order.
            jobs: all jobs.
            now_seconds: Unix time.

        Raises:
            ApiError, FencedOff, UnknownOutcome
        """
        first = set(islice(waiting, _FIRST_IN_LINE))
        due = [
            job
            for job in jobs
            if (
                job.key in first
                or (job.uid, job.generation) in self._refusals
                or _refused_seconds(job) is not None
            )
            and self._is_due(job, now_seconds)
        ]
        before = dict(self._refusals)
        for job in due[:_TRIALS_IN_A_CYCLE]:
            await self._ask_about(job, now_seconds)
        return before != self._refusals

    def forget(self) -> None:
        """Forget all answers."""
        self._refusals.clear()
        self._asked_seconds.clear()
        self._answers.clear()

    def forget_gone_jobs(self, uids: set[str]) -> None:
        """Forget what is known of jobs that are not among these."""
        self._asked_seconds = {trial: when for trial, when in self._asked_seconds.items() if trial[0] in uids}
        self._refusals = {trial: text for trial, text in self._refusals.items() if trial[0] in uids}

    def _is_due(self, job: JobRecord, now_seconds: float) -> bool:
        trial = (job.uid, job.generation)
        asked_seconds = self._asked_seconds.get(trial)
        if asked_seconds is None or asked_seconds < (_refused_seconds(job) or 0.0):
            return True
        return trial in self._refusals and now_seconds >= asked_seconds + self._again_seconds

    async def _ask_about(self, job: JobRecord, now_seconds: float) -> None:
        assert job.wish is not None, "a job that waits by the plan, or was asked about, has a valid spec"
        trial = (job.uid, job.generation)
        manifest = worker_pod(job, job.wish.spec, _SOMEWHERE, attempt=1)
        name = _name_of(job)
        again = trial in self._refusals or _refused_seconds(job) is not None
        if again or name not in self._answers:
            self._answers[name] = await self._writer.try_pod(job, manifest)
        self._asked_seconds[trial] = now_seconds
        self._refusals.pop(trial, None)
        if self._answers[name]:
            self._refusals[trial] = f"template: {self._answers[name]}"


def _refused_seconds(job: JobRecord) -> float | None:
    """Return when the API server did not take the pods of the attempt after which a job backs off; None of every other job."""
    waiting = job.status.waiting
    if job.wish is None or waiting is None or waiting.reason not in _AFTER_REFUSAL:
        return None
    placed = transitions.condition(job.status, ConditionType.PLACED)
    refused = placed is not None and placed.status == "False" and placed.reason == RefusalReason.POD_REFUSED
    return to_seconds(placed.last_transition_time) if placed is not None and refused else None


def _name_of(job: JobRecord) -> str:
    """Return what is the same for jobs of one namespace whose pods differ in their names only."""
    assert job.wish is not None
    spec = job.wish.spec
    what = [job.namespace, spec.template, spec.priority_class_name, spec.preemption.grace_period_seconds]
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()
