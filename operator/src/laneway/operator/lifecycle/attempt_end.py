"""What becomes of a job whose attempt is over: it succeeded, failed for good, starts again, or is tried elsewhere."""

from __future__ import annotations

from laneway.api.attempt_status import AttemptOutcome
from laneway.api.training_job_status import TrainingJobStatus
from laneway.operator.lifecycle import failed_workers, transitions
from laneway.operator.lifecycle.between_attempts import avoided
from laneway.operator.lifecycle.gang import DISRUPTION_REASONS, AttemptResult, DisruptionReason, Outcome
from laneway.operator.lifecycle.reconciled_job import JobEvent, ReconcileContext, ReconciledJob
from laneway.operator.lifecycle.scheduler_refusal import new_refusal
from laneway.scheduling.model.retries import avoided_seconds


def end_attempt(
    reconciled: ReconciledJob,
    backoff_limit: int,
    result: AttemptResult,
    context: ReconcileContext,
    *,
    ran: bool,
) -> ReconciledJob:
    """Apply the result of an attempt that is over to its job; ``ran``: whether all of its workers ran."""
    status, now_seconds, timeouts = reconciled.job.status, context.now_seconds, context.timeouts
    message = result.message
    end_seconds = now_seconds if result.ended_seconds is None else min(now_seconds, result.ended_seconds)
    if result.outcome == Outcome.SUCCEEDED:
        return reconciled.becomes(
            transitions.succeeded(status, message, end_seconds, now_seconds), JobEvent("Completed", message)
        )
    if result.outcome == Outcome.FAILED:
        return _after_failure(reconciled, backoff_limit, result, end_seconds, context)
    rolled_back = result.outcome == Outcome.ROLLED_BACK
    outcome = AttemptOutcome.ROLLED_BACK if rolled_back else AttemptOutcome.DISRUPTED
    status = transitions.unplaced(status, outcome, result.reason, message, end_seconds, now_seconds)
    status = _counted_in_a_row(status, result, ran)
    refusing = _refusing(result)
    if refusing is not None and not ran:
        refusal = new_refusal(reconciled.job, refusing, context)
        status = transitions.changed(status, scheduler_refusal=refusal)
    if result.avoid and timeouts.avoid_node_seconds:
        until_seconds = now_seconds + timeouts.avoid_node_seconds
        status = transitions.kept_away(status, result.avoid, message, until_seconds, now_seconds)
        status = transitions.changed(status, avoid=avoided(reconciled.job.with_status(status), context))
    event = "Rollback" if rolled_back else "Disrupted"
    return reconciled.becomes(status, JobEvent(event, message, warning=True))


def _refusing(result: AttemptResult) -> tuple[str, ...] | None:
    """Return the nodes that have to change before others are preempted again; None: no worker was refused.

    A kubelet's reason may go without a visible change, such as a device plugin that starts again: then only time has to pass."""
    if result.reason == DisruptionReason.WORKER_UNSCHEDULABLE:
        return result.avoid
    return () if result.reason == DisruptionReason.WORKER_REFUSED else None


def _counted_in_a_row(status: TrainingJobStatus, result: AttemptResult, ran: bool) -> TrainingJobStatus:
    """Count the attempts in a row that did not run. Refusals by the API server have their own backoff and are not counted."""
    if ran:
        return transitions.changed(status, unstarted_attempts=None, scheduler_refusal=None)
    if result.reason not in DISRUPTION_REASONS:
        return status
    return transitions.changed(status, unstarted_attempts=(status.unstarted_attempts or 0) + 1)


def _after_failure(
    reconciled: ReconciledJob,
    limit: int,
    result: AttemptResult,
    end_seconds: float,
    context: ReconcileContext,
) -> ReconciledJob:
    message, now_seconds = result.message, context.now_seconds
    status = reconciled.job.status
    status = failed_workers.noted(
        reconciled.job, message, end_seconds, now_seconds, last=status.restarts >= limit
    )
    if (failed := failed_workers.given_up(status)) is not None:
        times = "an attempt" if failed.failures == 1 else f"{failed.failures} attempts in a row"
        note = (
            f"{message}; {times} with {failed.workers} workers failed within ten minutes: it restarts with {reconciled.job.working_workers}, with "
            f"which it ran before, and is not rescaled to {failed.workers} again. To allow that, suspend the job and resume it."
        )
        back = transitions.rescaled_back(status, note, end_seconds, now_seconds)
        return reconciled.becomes(back, JobEvent(transitions.RESCALE_FAILED, note, warning=True))
    if status.restarts >= limit:
        again = f"{message}; restarted {status.restarts} times, the limit of spec.backoffLimit"
        why = again if limit else message
        ended = transitions.failed(status, result.reason, why, end_seconds, context.now_seconds)
        return reconciled.becomes(ended, JobEvent("Failed", why, warning=True))
    status = transitions.restarted(status, result.reason, message, end_seconds, context.now_seconds)
    note = f"{message}; restart {status.restarts} of at most {limit}"
    status, kept_away = _learn_from(status, result, context)
    if kept_away:
        note = f"{note}; {kept_away}"
    return reconciled.becomes(status, JobEvent("Restarted", note, warning=True))


def _learn_from(
    status: TrainingJobStatus, result: AttemptResult, context: ReconcileContext
) -> tuple[TrainingJobStatus, str]:
    """Keep the job away from a node on which its workers fail repeatedly, for longer after each further failure. The second
    result describes that; it is empty if the job is not kept away."""
    timeouts, now_seconds = context.timeouts, context.now_seconds
    if not result.failed_on:
        return status, ""
    status = transitions.failed_on(status, result.failed_on, now_seconds)
    times = next(each.count for each in status.failures if each.node == result.failed_on)
    seconds = avoided_seconds(timeouts.avoid_node_seconds, times, timeouts.node_failures)
    if not seconds:
        return status, ""
    text = f"worker failed there {times} times in a row, lastly: {result.message}"
    status = transitions.kept_away(status, (result.failed_on,), text, now_seconds + seconds, now_seconds)
    return status, f"kept away from {result.failed_on} for {seconds:g} s"
