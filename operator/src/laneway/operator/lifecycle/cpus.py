"""What a job's status says of its workers' CPUs, and of its speed by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from laneway.api.training_job_status import CPUPointStatus, CPUStatus, ProfileStatus
from laneway.operator.state.records.job_record import DesiredSpec
from laneway.operator.state.records.worker_pod import WorkerPod


def cpus_of(desired: DesiredSpec | None, mine: Sequence[WorkerPod]) -> CPUStatus | None:
    """Return the CPUs that the workers of an attempt have; None where they have what they request, or ended."""
    if desired is None or desired.cpus is None:
        return None
    requested = desired.cpus.request_millis
    there = [(pod, pod.cpus) for pod in mine if pod.cpus is not None and pod.started and not pod.ended]
    problems = [f"Worker {pod.rank} on {pod.node}: {cpus.problem}" for pod, cpus in there if cpus.problem]
    have = min((cpus.allocated_millis for _, cpus in there), default=requested)
    if have == requested and not problems:
        return None
    return CPUStatus(
        allocated=_quantity(have), requested=_quantity(requested), message=problems[0] if problems else ""
    )


def points_of(profile: ProfileStatus | None) -> dict[int, int]:
    """Return the points of a profile."""
    return (
        {}
        if profile is None
        else {each.cpu_millis: each.iteration_microseconds for each in profile.cpu_points}
    )


def with_points(profile: ProfileStatus, points: Mapping[int, int]) -> ProfileStatus:
    """Return a profile with these points; the same object where it has them."""
    if points_of(profile) == points:
        return profile
    made = tuple(
        CPUPointStatus(cpu_millis=cpus, iteration_microseconds=time) for cpus, time in points.items()
    )
    return profile.model_copy(update={"cpu_points": made})


def _quantity(millis: int) -> str:
    """Return CPUs as people write them: ``2``, ``2500m``."""
    return f"{millis}m" if millis % 1000 else str(millis // 1000)
