"""What is known of each template, kept up to date as jobs change."""

from __future__ import annotations

from collections import defaultdict

from laneway.api.conditions import is_true
from laneway.api.training_job import ConditionType, ProfileStatus
from laneway.operator.records.job_record import JobRecord
from laneway.operator.templates import NOTHING_KNOWN, KnownTemplate, TemplateKey, known_templates, template_of

_Contribution = tuple[ProfileStatus | None, bool]


class TemplateBook:
    """Templates by namespace and hash, with the jobs that tell of them."""

    def __init__(self) -> None:
        self._known: dict[TemplateKey, KnownTemplate] = {}
        self._told: dict[str, tuple[TemplateKey, JobRecord]] = {}
        """By uid: the jobs that have something to tell."""

        self._tellers: dict[TemplateKey, dict[str, JobRecord]] = defaultdict(dict)
        self._stale: set[TemplateKey] = set()

    def note(self, uid: str, job: JobRecord | None) -> None:
        """Note a job that is new or has changed; None: it is gone."""
        before = self._told.get(uid)
        key = None if job is None else template_of(job)
        tells = job is not None and key is not None and _contribution(job) != (None, False)
        if before is None and not tells:
            return
        if (
            before is not None
            and tells
            and job is not None
            and before[0] == key
            and _contribution(before[1]) == _contribution(job)
        ):
            return
        if before is not None:
            del self._told[uid], self._tellers[before[0]][uid]
            self._stale.add(before[0])
        if tells and job is not None and key is not None:
            self._told[uid] = key, job
            self._tellers[key][uid] = job
            self._stale.add(key)

    def of(self, job: JobRecord) -> KnownTemplate:
        """Return what is known of a job's template."""
        key = template_of(job)
        return NOTHING_KNOWN if key is None else self._known.get(key, NOTHING_KNOWN)

    def refresh(self) -> set[TemplateKey]:
        """Reckon anew what has changed; return the templates of which something else is known than before."""
        changed = set()
        for key in self._stale:
            tellers = self._tellers[key]
            known = known_templates(tellers[uid] for uid in sorted(tellers)).get(key)
            if known != self._known.get(key):
                changed.add(key)
            if known is None:
                self._known.pop(key, None)
                del self._tellers[key]
            else:
                self._known[key] = known
        self._stale.clear()
        return changed


def _contribution(job: JobRecord) -> _Contribution:
    return job.status.profile, is_true(job.status.conditions, ConditionType.SUCCEEDED)
