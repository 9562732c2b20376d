"""Template profiles: what is known of a job from other jobs of the same template.

status.profile of all existing jobs, ended ones included ─▶ the template's profile ─▶ the planner's figures for a waiting job,
and the annotation ``laneway.dev/profile`` of its pods, from which the node's agent starts. Run times of succeeded jobs ─▶ the
expected run time.
"""

from __future__ import annotations

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


def known_template(jobs: Iterable[JobRecord]) -> KnownTemplate:
    """Return what is known of the template of these jobs."""
    known = NOTHING_KNOWN
    for job in jobs:
        before, profile = known.profile, job.status.profile
        succeeded = is_true(job.status.conditions, ConditionType.COMPLETE)
        known = KnownTemplate(
            profile=larger(before, profile) if before and profile else before or profile,
            runs=known.runs + succeeded,
            run_seconds=known.run_seconds + (accounting.executed_seconds(job.status) if succeeded else 0.0),
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
