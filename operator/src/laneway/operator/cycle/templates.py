"""Template profiles: what is known of a job from other jobs of the same template.

status.profile of all existing jobs, ended ones included ─▶ the template's profile ─▶ the planner's figures for a waiting job,
and the annotation ``laneway.dev/profile`` of its pods, from which the node's agent starts. Run times of succeeded jobs ─▶ the
expected run time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from laneway.api.conditions import is_true
from laneway.api.job_conditions import ConditionType
from laneway.api.template_profile import TemplateProfile
from laneway.api.training_job_status import ProfileStatus
from laneway.operator.lifecycle import accounting
from laneway.operator.state.records.job_record import JobRecord

TemplateKey = tuple[str, str]
"""Namespace and template hash: one namespace's word does not count in another."""


@dataclass(frozen=True, slots=True)
class KnownTemplate:
    """What the jobs of one template have shown."""

    profile: ProfileStatus | None = None
    """Of memory the most that one of them needed, of time the longest measurement; None: none was measured."""

    runs: int = 0
    """How many of them succeeded."""

    run_seconds: float = 0.0
    """For how long these ran, together."""

    @property
    def expected_seconds(self) -> float | None:
        """How long one of them runs, on average; None: none has succeeded."""
        return self.run_seconds / self.runs if self.runs else None


NOTHING_KNOWN = KnownTemplate()


Evidence = tuple[ProfileStatus | None, float | None]
"""What one job has shown: its profile, and how long it ran if it succeeded."""

NO_EVIDENCE: Evidence = (None, None)


def evidence_of(job: JobRecord) -> Evidence:
    """Return what a job has shown."""
    succeeded = is_true(job.status.conditions, ConditionType.COMPLETE)
    return job.status.profile, accounting.executed_seconds(job.status) if succeeded else None


def known_template(evidence: Iterable[Evidence]) -> KnownTemplate:
    """Return what is known of a template by what its jobs have shown."""
    known = NOTHING_KNOWN
    for profile, run_seconds in evidence:
        before = known.profile
        known = KnownTemplate(
            profile=larger(before, profile) if before and profile else before or profile,
            runs=known.runs + (run_seconds is not None),
            run_seconds=known.run_seconds + (run_seconds or 0.0),
        )
    return known


def template_of(job: JobRecord) -> TemplateKey | None:
    """Return the key of a job's template; None where its spec is wrong."""
    return None if job.desired is None else (job.namespace, job.desired.template_hash)


def larger(one: ProfileStatus, other: ProfileStatus) -> ProfileStatus:
    """Return the profile that covers both."""
    longest = max(one, other, key=lambda profile: profile.iterations)
    return longest.model_copy(
        update={
            name: max(getattr(one, name), getattr(other, name))
            for name in ("persistent_bytes", "ephemeral_bytes", "framework_bytes")
        }
    )


class TemplateBook:
    """What is known of each template, kept up to date as jobs change."""

    def __init__(self) -> None:
        self._known: dict[TemplateKey, KnownTemplate] = {}
        self._template: dict[str, TemplateKey] = {}
        """By the job's uid."""

        self._jobs: defaultdict[TemplateKey, dict[str, Evidence]] = defaultdict(dict)
        """By uid: what each job of a template has shown."""

        self._stale: set[TemplateKey] = set()

    def note(self, uid: str, job: JobRecord | None) -> None:
        """Note a job that is new, has changed or is gone (None)."""
        before, key = self._template.get(uid), None if job is None else template_of(job)
        if before is not None and before != key:
            self._leave(uid, before)
        if job is None or key is None:
            return
        self._template[uid] = key
        known, evidence = self._jobs[key].get(uid, NO_EVIDENCE), evidence_of(job)
        self._jobs[key][uid] = evidence
        if evidence != known:
            self._stale.add(key)

    def of(self, job: JobRecord) -> KnownTemplate:
        """Return what is known of a job's template."""
        key = template_of(job)
        return NOTHING_KNOWN if key is None else self._known.get(key, NOTHING_KNOWN)

    def refresh(self) -> set[str]:
        """Recompute the stale templates; return the uids of the jobs for whose template the result has changed."""
        changed: set[str] = set()
        for key in self._stale:
            jobs = self._jobs.get(key, {})
            shown = sorted(uid for uid, evidence in jobs.items() if evidence != NO_EVIDENCE)
            known = known_template(jobs[uid] for uid in shown)
            if known != self._known.get(key, NOTHING_KNOWN):
                changed |= jobs.keys()
                self._known[key] = known
            if known == NOTHING_KNOWN:
                self._known.pop(key, None)
        self._stale.clear()
        return changed

    def _leave(self, uid: str, key: TemplateKey) -> None:
        del self._template[uid]
        if self._jobs[key].pop(uid) != NO_EVIDENCE:
            self._stale.add(key)
        if not self._jobs[key]:
            del self._jobs[key]


def to_node(profile: ProfileStatus) -> TemplateProfile:
    """Return a profile as the node takes it: there the framework's memory is beside the persistent, not in it."""
    return TemplateProfile(
        persistent_bytes=max(0, profile.persistent_bytes - profile.framework_bytes),
        ephemeral_bytes=profile.ephemeral_bytes,
        framework_bytes=profile.framework_bytes,
        iteration_seconds=profile.iteration_microseconds / 1e6,
        iteration_seconds_spread=profile.iteration_spread_microseconds / 1e6,
        data_seconds=profile.data_microseconds / 1e6,
        model_bytes=profile.model_bytes,
        largest_tensor_bytes=profile.largest_tensor_bytes,
    )


def from_node(profile: TemplateProfile) -> ProfileStatus:
    """Return what :func:`to_node` made, as a status has it."""
    return ProfileStatus(
        persistent_bytes=profile.persistent_bytes + profile.framework_bytes,
        ephemeral_bytes=profile.ephemeral_bytes,
        framework_bytes=profile.framework_bytes,
        iteration_microseconds=round(profile.iteration_seconds * 1e6),
        iteration_spread_microseconds=round(profile.iteration_seconds_spread * 1e6),
        data_microseconds=round(profile.data_seconds * 1e6),
        model_bytes=profile.model_bytes,
        largest_tensor_bytes=profile.largest_tensor_bytes,
    )
