"""Why a running job keeps its workers though its user asks for another number, in words for its user."""

from __future__ import annotations

from laneway.scheduling.explain.reasons import format_seconds
from laneway.scheduling.model.held_rescale import HeldRescale, HoldReason
from laneway.scheduling.model.plan import WaitingReason
from laneway.scheduling.model.snapshot import Job


def awaiting_gpus(job: Job, workers: int) -> HeldRescale:
    """Return why a job is not rescaled: the new gang does not fit on idle GPUs yet."""
    when = "when enough GPUs are idle, the quota allows it and no earlier job waits for them"
    if workers < len(job.placement):
        when = "when enough GPUs are idle on other nodes: it could not start again on its own ones"
    return _held(job, HoldReason.NO_IDLE_GPUS, f"Restarts with {workers} {when}.")


def awaiting_nodes(job: Job, workers: int, unschedulable: WaitingReason) -> HeldRescale:
    """Return why a job is not rescaled: the new gang would not fit if it were alone in the cluster."""
    restarts = f"Restarts with {workers} when nodes that it may use can hold them. {unschedulable.message}"
    return _held(job, HoldReason.NO_USABLE_NODES, restarts)


def awaiting_another(job: Job, workers: int) -> HeldRescale:
    """Return why a job is not rescaled: another one is being rescaled."""
    return _held(
        job, HoldReason.ANOTHER_RESCALE, f"Restarts with {workers} once another job has been rescaled."
    )


def rescaled_lately(job: Job, workers: int, min_run_seconds: float) -> HeldRescale:
    """Return why a job is not rescaled: it was rescaled a short time ago."""
    restarts = (
        f"Restarts with {workers} when {format_seconds(min_run_seconds)} have passed since its last rescale."
    )
    return _held(job, HoldReason.MINIMUM_RUN_TIME, restarts)


def would_lose_work(job: Job, workers: int) -> HeldRescale:
    """Return why a job is not rescaled: it would lose too much unsaved work."""
    if not job.starts_over:
        restarts = f"Restarts with {workers} after its next checkpoint: it has too much unsaved work."
        return _held(job, HoldReason.UNSAVED_WORK, restarts)
    text = (
        f"It did not resume from a checkpoint when it was last stopped, so a restart with {workers} would lose all of its work. Load the "
        "last checkpoint when the script starts; to restart it all the same, suspend the job and resume it."
    )
    return _held(job, HoldReason.DOES_NOT_RESUME, text)


def _held(job: Job, reason: HoldReason, restarts: str) -> HeldRescale:
    has = len(job.placement)
    return HeldRescale(reason, f"Running with {has} worker{'' if has == 1 else 's'}. {restarts}")
