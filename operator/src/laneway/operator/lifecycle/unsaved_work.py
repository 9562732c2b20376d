"""What an eviction would lose of a job: from its sessions' word on checkpoints to ``status.progress`` and to the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from laneway.api.gpu_node import SavedWorkStatus
from laneway.api.rfc3339 import parse_time
from laneway.api.training_job_status import ProgressStatus, TrainingJobStatus
from laneway.operator.lifecycle import accounting
from laneway.scheduling.model.unsaved_work import MOST_LOST_SECONDS

WARNED_AFTER_SECONDS: Final = 1800.0
"""Executed time without any checkpoint after which the user is told: three times the interval of ``laneway.client.Checkpoint``."""

_RESTARTED_RATIO: Final = 0.5
"""A new attempt whose first reported step is below this part of the last one's has started over."""


def with_saved_work(
    status: TrainingJobStatus,
    progress: ProgressStatus,
    sessions: Sequence[SavedWorkStatus],
    now_seconds: float,
) -> ProgressStatus:
    """Return the progress with what the workers' clients say of checkpoints; unchanged where none says anything.

    The latest checkpoint of any worker counts for the gang: usually one rank saves for all, and where every rank writes its
    part, the write returns once all parts are complete.

    Args:
        status: the job's status; its progress is the one before.
        progress: what else is known now.
        sessions: what the clients of the current attempt say.
        now_seconds: Unix time.
    """
    if not sessions:
        return progress
    before = status.progress or ProgressStatus()
    written = [each.unsaved_since for each in sessions if each.checkpointed]
    began = before.unsaved_since is None
    resumes = _resumes(status, before, progress, sessions) if began else before.resumes
    if written and before.last_checkpoint_time is None:
        resumes = None  # now there is something to resume from
    since = max((each.unsaved_since for each in sessions), key=parse_time)
    changes: dict[str, object] = {"resumes": resumes}
    if written:
        changes["last_checkpoint_time"] = max(written, key=parse_time)
    if began or (since != before.unsaved_since and resumes is not False):
        changes |= {
            "unsaved_since": since,
            "saved_executed_milliseconds": _executed_at(status, before, since, now_seconds),
        }
    return _warned(status, progress.model_copy(update=changes), now_seconds)


def unsaved_seconds(status: TrainingJobStatus) -> float | None:
    """Return the executed time that no checkpoint holds, as far as it is counted; None: unknown."""
    progress = status.progress
    if progress is None or progress.unsaved_since is None:
        return None
    return max(0, status.executed_milliseconds - progress.saved_executed_milliseconds) / 1000


def lost_seconds(status: TrainingJobStatus) -> float | None:
    """Return the executed time that the current attempt loses if it ends now, as far as it is counted; None: unknown. A job that starts over
    loses what it executed in this attempt, since earlier attempts were counted at their ends."""
    if starts_over(status):
        return (status.executed_milliseconds - status.executed_before_attempt_milliseconds) / 1000
    return unsaved_seconds(status)


def starts_over(status: TrainingJobStatus) -> bool:
    """Return whether the job is known not to resume after it was stopped."""
    return status.progress is not None and status.progress.resumes is False


def loses_much(status: TrainingJobStatus, now_seconds: float) -> bool:
    """Return whether an eviction would lose more than the scheduler lets an equal cost the job."""
    unsaved = unsaved_seconds(accounting.counted(status, now_seconds))
    return starts_over(status) or (unsaved is not None and unsaved >= MOST_LOST_SECONDS)


def _executed_at(status: TrainingJobStatus, before: ProgressStatus, since: str, now_seconds: float) -> int:
    lost_seconds = (
        0.0 if before.unsaved_since is None else parse_time(before.unsaved_since) - parse_time(since)
    )
    if lost_seconds > 0:  # the process that saved has ended: the others' work since then is in no checkpoint
        return max(0, before.saved_executed_milliseconds - round(1000 * lost_seconds))
    counted = accounting.counted(status, now_seconds)
    if status.service_counted_at is None:
        return counted.executed_milliseconds
    return max(0, counted.executed_milliseconds - round(1000 * max(0.0, now_seconds - parse_time(since))))


def _resumes(
    status: TrainingJobStatus,
    before: ProgressStatus,
    progress: ProgressStatus,
    sessions: Sequence[SavedWorkStatus],
) -> bool | None:
    """Return whether the attempt that begins to train goes on from an earlier one. A loaded file shows it if it was written
    after the job first ran; so do the script's steps. It starts over if there was something to go on from, or much was lost."""
    if status.attempt <= 1 or status.start_time is None:
        return before.resumes
    loaded = [parse_time(each.loaded_from) for each in sessions if each.loaded_from is not None]
    if loaded and max(loaded) >= parse_time(status.start_time):
        return True
    if before.step and progress.step is not None and progress.step != before.step:
        return progress.step > before.step * _RESTARTED_RATIO
    lost_much = status.executed_milliseconds >= 1000 * MOST_LOST_SECONDS
    return False if before.last_checkpoint_time is not None or lost_much else before.resumes


def _warned(status: TrainingJobStatus, progress: ProgressStatus, now_seconds: float) -> ProgressStatus:
    executed_seconds = accounting.executed_seconds(accounting.counted(status, now_seconds))
    warning = ""
    if progress.resumes is False:
        warning = (
            "The training started from the beginning after it was stopped: an eviction loses all of its work. Load the last "
            "checkpoint when the script starts (laneway.client.Checkpoint does)."
        )
    elif progress.last_checkpoint_time is None and executed_seconds >= WARNED_AFTER_SECONDS:
        warning = (
            "The training has written no checkpoint: an eviction loses all of its work. Save one every ten minutes, to a volume "
            "that outlives the pod (laneway.client.Checkpoint does)."
        )
    return progress.model_copy(update={"warning": warning})
