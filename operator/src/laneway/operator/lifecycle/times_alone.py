"""Keeps the times of a profile to those that were measured while nobody shared the GPUs.

Beside others an iteration takes longer, so a job would seem to use more of its GPUs than it does, and the planner would let no
further job of its template share. What sharing costs is measured as a speed (:mod:`laneway.operator.cycle.shared_speeds`).
"""

from __future__ import annotations

from collections.abc import Collection

from laneway.api.training_job_status import ProfileStatus, TrainingJobStatus
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.state.sessions import SessionIndex

_TIMES = ("iteration_microseconds", "iteration_spread_microseconds", "data_microseconds", "iterations")

_LEAST_ITERATIONS = 1
"""What a measurement that was never alone counts as: any measurement of the template that was alone replaces its times."""


def with_times_alone(
    profile: ProfileStatus | None,
    status: TrainingJobStatus,
    mine: Collection[WorkerPod],
    sessions: SessionIndex,
) -> ProfileStatus | None:
    """Return a profile with the times from before others came to the job's GPUs; its sizes are those measured now.

    Args:
        profile: measured now; None: nothing.
        status: before; its profile counts if it is of this attempt.
        mine: the attempt's pods.
        sessions: of all nodes.
    """
    if profile is None or not _is_shared(mine, sessions):
        return profile
    execution, before = status.execution, status.profile
    if before is None or execution is None or execution.attempt != status.attempt or not execution.profiled:
        return profile.model_copy(update={"iterations": min(profile.iterations, _LEAST_ITERATIONS)})
    if before.iterations <= _LEAST_ITERATIONS:
        return profile.model_copy(update={"iterations": before.iterations})
    return profile.model_copy(update={name: getattr(before, name) for name in _TIMES})


def _is_shared(mine: Collection[WorkerPod], sessions: SessionIndex) -> bool:
    """Whether others hold one of the pods' GPUs."""
    holds = [hold for pod in mine for hold in sessions.of(pod)]
    own = {hold.session.key for hold in holds}
    gpus = {hold.gpu.uuid for hold in holds}
    return any(
        hold.gpu.uuid in gpus and hold.session.key not in own and not hold.ended
        for node in {hold.node for hold in holds}
        for hold in sessions.on(node)
    )
