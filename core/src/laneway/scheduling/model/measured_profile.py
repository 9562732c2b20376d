"""What the nodes measured of a job's iterations, as the scheduler counts it."""

from __future__ import annotations

from laneway.api.training_job_status import ProfileStatus
from laneway.scheduling.model.snapshot import Profile, StageSeconds


def profile_of(measured: ProfileStatus) -> Profile:
    """Return the profile of a job with these figures.

    The time that a job loads data in is part of its iteration and none of the GPU's: there others may take turns. It is no stage that
    others queue for, because every pod has CPUs of its own.
    """
    gpu_seconds = measured.iteration_microseconds / 1e6
    return Profile(
        persistent_bytes=measured.persistent_bytes,
        ephemeral_bytes=measured.ephemeral_bytes,
        iteration_seconds=gpu_seconds + measured.data_microseconds / 1e6,
        model_bytes=measured.model_bytes,
        largest_tensor_bytes=measured.largest_tensor_bytes,
        stages=StageSeconds(0.0, 0.0, gpu_seconds, 0.0) if gpu_seconds else None,
    )
