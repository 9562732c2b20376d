"""Compute which memory sizes the lane table counts for a container.

The sources are the measurements of its processes and the profile of its template. Processes of one container
run side by side, so their memory adds up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from laneway.api.template_profile import TemplateProfile
from laneway.node_agent.turns.session import Session, Sizes


def measured_sizes(sessions: Sequence[Session]) -> Sizes | None:
    """Return the measured sizes; None while a process that may have used memory has sent no profile."""
    parts = _measured(sessions)
    return _summed(parts) if parts and not _profile_missing(sessions) else None


def counted_sizes(sessions: Sequence[Session], template: Sizes | None, before: Sizes | None) -> Sizes | None:
    """Return the sizes that the lane table counts; None if nothing is known, so that the whole quota
    counts.

    A process without a profile counts from its first request on, because it may use memory from then on. The
    configured reserve counts for its framework's own memory until that is known.

    Args:
        sessions: the container's processes.
        template: the sizes of another container of the same template, all its processes together; a lower
            bound.
        before: the sizes counted so far; they stay while no process uses memory.
    """
    parts = _measured(sessions)
    if template is not None:
        return _larger(_summed(parts), template) if parts else template
    if _profile_missing(sessions):
        return None
    return _summed(parts) if parts else before


def template_sizes(profile: TemplateProfile | None) -> Sizes | None:
    """Convert a template's profile to sizes; None if it claims that training takes no memory.

    Nothing that trains does so. The whole quota counts then, as without a profile.
    """
    if profile is None or not profile.persistent_bytes + profile.ephemeral_bytes:
        return None
    return Sizes(**profile.model_dump())


def _measured(sessions: Sequence[Session]) -> list[Sizes]:
    return [replace(s.sizes, framework_bytes=s.framework_bytes) for s in sessions if s.sizes is not None]


def _profile_missing(sessions: Sequence[Session]) -> bool:
    return any(session.has_run and session.sizes is None for session in sessions)


def _summed(parts: Sequence[Sizes]) -> Sizes:
    remaining = [sizes.remaining_seconds for sizes in parts if sizes.remaining_seconds is not None]
    slowest = max(parts, key=lambda sizes: sizes.iteration_seconds)
    return Sizes(
        persistent_bytes=sum(sizes.persistent_bytes for sizes in parts),
        ephemeral_bytes=sum(sizes.ephemeral_bytes for sizes in parts),
        framework_bytes=sum(sizes.framework_bytes for sizes in parts),
        iteration_seconds=slowest.iteration_seconds,
        iterations=max(sizes.iterations for sizes in parts),
        largest_tensor_bytes=max(sizes.largest_tensor_bytes for sizes in parts),
        model_bytes=max(sizes.model_bytes for sizes in parts),
        iteration_seconds_spread=slowest.iteration_seconds_spread,
        remaining_seconds=max(remaining) if len(remaining) == len(parts) else None,
        data_seconds=slowest.data_seconds,
    )


def _larger(measured: Sizes, template: Sizes) -> Sizes:
    return replace(
        measured,
        persistent_bytes=max(measured.persistent_bytes, template.persistent_bytes),
        ephemeral_bytes=max(measured.ephemeral_bytes, template.ephemeral_bytes),
        framework_bytes=max(measured.framework_bytes, template.framework_bytes),
    )
