"""What is known of each template, kept up to date as jobs change."""

from __future__ import annotations

from collections import defaultdict

from laneway.api.conditions import is_true
from laneway.api.job_conditions import ConditionType
from laneway.api.training_job_status import ProfileStatus
from laneway.operator.cycle.templates import (
    NOTHING_KNOWN,
    KnownTemplate,
    TemplateKey,
    known_template,
    template_of,
)
from laneway.operator.state.records.job_record import JobRecord

_NO_EVIDENCE: tuple[ProfileStatus | None, bool] = (None, False)


class TemplateBook:
    """Templates by namespace and hash, with the jobs that were made from them."""

    def __init__(self) -> None:
        self._known: dict[TemplateKey, KnownTemplate] = {}
        self._template: dict[str, TemplateKey] = {}
        """By the job's uid."""

        self._jobs: dict[TemplateKey, set[str]] = defaultdict(set)
        self._evidence: dict[TemplateKey, dict[str, JobRecord]] = defaultdict(dict)
        """By uid: the jobs that were measured or have succeeded."""

        self._stale: set[TemplateKey] = set()

    def note(self, uid: str, job: JobRecord | None) -> None:
        """Note a job that is new, has changed or is gone (None)."""
        key, before = None if job is None else template_of(job), self._template.get(uid)
        if before is not None and before != key:
            self._leave(uid, before)
        if job is None or key is None:
            return
        self._template[uid] = key
        self._jobs[key].add(uid)
        known = self._evidence[key].get(uid)
        if _evidence(job) == (_NO_EVIDENCE if known is None else _evidence(known)):
            return
        self._stale.add(key)
        if _evidence(job) == _NO_EVIDENCE:
            del self._evidence[key][uid]
        else:
            self._evidence[key][uid] = job

    def of(self, job: JobRecord) -> KnownTemplate:
        """Return what is known of a job's template."""
        key = template_of(job)
        return NOTHING_KNOWN if key is None else self._known.get(key, NOTHING_KNOWN)

    def refresh(self) -> set[str]:
        """Recompute the stale templates; return the uids of the jobs for whose template the result has changed."""
        changed: set[str] = set()
        for key in self._stale:
            evidence = self._evidence.get(key, {})
            known = known_template(evidence[uid] for uid in sorted(evidence))
            if known != self._known.get(key, NOTHING_KNOWN):
                changed |= self._jobs.get(key, set())
                self._known[key] = known
            if known == NOTHING_KNOWN:
                self._known.pop(key, None)
        self._stale.clear()
        return changed

    def _leave(self, uid: str, key: TemplateKey) -> None:
        del self._template[uid]
        self._jobs[key].discard(uid)
        if self._evidence[key].pop(uid, None) is not None:
            self._stale.add(key)
        if not self._jobs[key]:
            del self._jobs[key]
            self._evidence.pop(key, None)


def _evidence(job: JobRecord) -> tuple[ProfileStatus | None, bool]:
    return job.status.profile, is_true(job.status.conditions, ConditionType.COMPLETE)
