"""Converts the nodes' measurements of a job's iterations to the scheduler's profile."""

from __future__ import annotations

from laneway.api.training_job_status import ProfileStatus
from laneway.scheduling.model.snapshot import Profile, StageSeconds


def profile_of(measured: ProfileStatus) -> Profile:
    """Return the profile of a job with these figures.

    Loading data is part of the iteration but not of the GPU's time: other jobs may take turns meanwhile. It is no stage that
    others queue for, because every pod has its own CPUs.
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
