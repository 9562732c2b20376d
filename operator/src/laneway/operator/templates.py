"""Profile first: what is known of a job because others of the same template ran.

status.profile of the jobs that are there, ended ones too ─▶ profile of the template ─▶ the planner's figures of a waiting job,
and the annotation ``laneway.dev/profile`` of its pods, from which the node's agent starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from laneway.api.template_profile import TemplateProfile
from laneway.api.training_job import ProfileStatus
from laneway.operator.records.job_record import JobRecord

TemplateKey = tuple[str, str]
"""Namespace and template hash: one namespace's word does not count in another."""


def template_profiles(jobs: Iterable[JobRecord]) -> Mapping[TemplateKey, ProfileStatus]:
    """Return what is known of each template: of memory the most that one of its jobs needed, of time the longest measurement."""
    known: dict[TemplateKey, ProfileStatus] = {}
    for job in jobs:
        key = template_of(job)
        if key is None or job.status.profile is None:
            continue
        before = known.get(key)
        known[key] = job.status.profile if before is None else larger(before, job.status.profile)
    return MappingProxyType(known)


def template_of(job: JobRecord) -> TemplateKey | None:
    """Return the key of a job's template; None where its spec is wrong."""
    return None if job.wish is None else (job.namespace, job.wish.template_hash)


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
        model_bytes=profile.model_bytes,
        largest_tensor_bytes=profile.largest_tensor_bytes,
    )
