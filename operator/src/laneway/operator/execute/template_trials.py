"""Checks the pod templates of waiting jobs by a dry run on the API server, before the jobs get GPUs.

A job that starts at once needs no dry run: the real creation shows the result. After a refused creation, its template is
checked, so that a job whose pods will never be accepted does not get and lose GPUs again and again. Equal templates are checked
once. Each cycle checks a few templates, of the first jobs in the queue. Only faults of the template itself count, not an
exhausted quota or a webhook that does not answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from laneway.api.training_job_status import WorkerPlacementStatus
from laneway.operator.execute.manifests import worker_pod
from laneway.operator.execute.writer import Writer
from laneway.operator.lifecycle.between_attempts import pods_refused_seconds
from laneway.operator.pacing import TEMPLATE_TRIALS_PER_CYCLE
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.job_record import JobRecord

_FIRST_IN_LINE = 64

_SOMEWHERE = WorkerPlacementStatus(worker=0, node="somewhere", gpus=(), share_percent=1)

TemplateKey = tuple[str, int]
"""A job's uid, and the generation of its spec."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked about a job, and when."""

    seconds: float
    template: str


class TemplateTrials:
    """What the API server said of templates."""

    def __init__(self, writer: Writer, again_seconds: float, runtime_class: str = "") -> None:
        """Ask by ``writer``; a template that was refused is asked about again after so long. ``runtime_class``: as for the workers."""
        self._writer = writer
        self._runtime_class = runtime_class
        self._again_seconds = again_seconds
        self._refusals: dict[TemplateKey, str] = {}
        self._asked: dict[TemplateKey, _Asked] = {}
        self._answers: dict[str, str] = {}
        """By name of the template."""

    @property
    def refusals(self) -> Mapping[TemplateKey, str]:
        """By job uid and generation: why its pods would be refused."""
        return self._refusals

    async def ask(
        self, state: ClusterState, waiting: Iterable[str], refused: Iterable[str], now_seconds: float
    ) -> bool:
        """Ask about some templates; return whether a refusal is new or withdrawn.

        Args:
            state: what is known of the cluster.
            waiting: keys of the waiting jobs, in order.
            refused: uids of jobs that back off because their pods were refused.
            now_seconds: Unix time.

        Raises:
            ApiError, FencedOff, UnknownOutcome
        """
        first = (state.job_uids.get(key, "") for key in islice(waiting, _FIRST_IN_LINE))
        known = (uid for uid, _ in self._refusals)
        uids = dict.fromkeys([*first, *sorted(refused), *known])
        jobs = (state.jobs[uid] for uid in uids if uid in state.jobs)
        due = islice((job for job in jobs if self._is_due(job, now_seconds)), TEMPLATE_TRIALS_PER_CYCLE)
        before = dict(self._refusals)
        for job in list(due):
            await self._ask_about(job, now_seconds)
        return before != self._refusals

    def forget(self) -> None:
        """Forget all answers."""
        self._refusals.clear()
        self._asked.clear()
        self._answers.clear()

    def keep_only(self, specs: Iterable[TemplateKey]) -> None:
        """Forget all but these: the specs of jobs that have not ended, as they are now."""
        asked, self._asked = self._asked, {}
        refusals, self._refusals = self._refusals, {}
        for key in specs:
            if key in asked:
                self._asked[key] = asked[key]
            if key in refusals:
                self._refusals[key] = refusals[key]
        templates = {each.template for each in self._asked.values()}
        self._answers = {name: answer for name, answer in self._answers.items() if name in templates}

    def _is_due(self, job: JobRecord, now_seconds: float) -> bool:
        if job.desired is None:
            return False
        key = (job.uid, job.generation)
        asked = self._asked.get(key)
        if asked is None or asked.seconds < (pods_refused_seconds(job) or 0.0):
            return True
        return key in self._refusals and now_seconds >= asked.seconds + self._again_seconds

    async def _ask_about(self, job: JobRecord, now_seconds: float) -> None:
        assert job.desired is not None, "a job that waits by the plan, or was asked about, has a valid spec"
        key = (job.uid, job.generation)
        manifest = worker_pod(job, job.desired.spec, _SOMEWHERE, attempt=1, runtime_class=self._runtime_class)
        name = _name_of(job)
        again = key in self._refusals or pods_refused_seconds(job) is not None
        if again or name not in self._answers:
            self._answers[name] = await self._writer.try_pod(job, manifest)
        self._asked[key] = _Asked(now_seconds, name)
        self._refusals.pop(key, None)
        if self._answers[name]:
            self._refusals[key] = f"template: {self._answers[name]}"


def _name_of(job: JobRecord) -> str:
    """Return what is the same for jobs of one namespace whose pods differ in their names only."""
    assert job.desired is not None
    spec = job.desired.spec
    what = [
        job.namespace,
        spec.template,
        spec.effective_priority_class_name,
        spec.effective_grace_period_seconds,
    ]
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()
