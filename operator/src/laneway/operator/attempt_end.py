"""What becomes of a job whose attempt is over: it succeeded, failed for good, starts again, or is tried elsewhere."""

from __future__ import annotations

from laneway.api.training_job import TrainingJobStatus
from laneway.operator import transitions
from laneway.operator.between_attempts import avoided
from laneway.operator.gang import SETBACKS, Outcome, Verdict
from laneway.operator.standing import Facts, Happening, Standing


def end_attempt(
    standing: Standing, backoff_limit: int, verdict: Verdict, facts: Facts, *, ran: bool
) -> Standing:
    """Take the step that the verdict on an attempt which is over demands; ``ran``: all of its workers ran."""
    status, now_seconds, patience = standing.job.status, facts.now_seconds, facts.around.patience
    message = verdict.message
    end_seconds = now_seconds if verdict.ended_seconds is None else min(now_seconds, verdict.ended_seconds)
    if verdict.outcome == Outcome.SUCCEEDED:
        return standing.becomes(
            transitions.succeeded(status, message, end_seconds, now_seconds), Happening("Succeeded", message)
        )
    if verdict.outcome == Outcome.FAILED:
        return _after_failure(standing, backoff_limit, verdict, end_seconds, facts)
    status = transitions.unplaced(status, verdict.reason, message, end_seconds, now_seconds)
    status = _counted_in_a_row(status, verdict, ran)
    if verdict.avoid and patience.avoid_node_seconds:
        until_seconds = now_seconds + patience.avoid_node_seconds
        status = transitions.kept_away(status, verdict.avoid, message, until_seconds, now_seconds)
        status = transitions.changed(status, avoid=avoided(standing.job.with_status(status), facts))
    reason = "Rollback" if verdict.outcome == Outcome.ROLLED_BACK else "Disrupted"
    return standing.becomes(status, Happening(reason, message, warning=True))


def _counted_in_a_row(status: TrainingJobStatus, verdict: Verdict, ran: bool) -> TrainingJobStatus:
    """Count the attempts in a row that have not run. What the API server did not take waits for its own time, and counts as none."""
    if ran:
        return transitions.changed(status, unstarted_attempts=None)
    if verdict.reason not in SETBACKS:
        return status
    return transitions.changed(status, unstarted_attempts=(status.unstarted_attempts or 0) + 1)


def _after_failure(
    standing: Standing, limit: int, verdict: Verdict, end_seconds: float, facts: Facts
) -> Standing:
    status, message = standing.job.status, verdict.message
    if status.restarts >= limit:
        again = f"{message}; it was restarted {status.restarts} times, its backoffLimit"
        why = again if limit else message
        ended = transitions.failed(status, verdict.reason, why, end_seconds, facts.now_seconds)
        return standing.becomes(ended, Happening("Failed", why, warning=True))
    status = transitions.restarted(status, "WorkerFailed", message, end_seconds, facts.now_seconds)
    note = f"{message}; restart {status.restarts} of at most {limit}"
    status, kept_away = _learn_from(status, verdict, facts)
    if kept_away:
        note = f"{note}; {kept_away}"
    return standing.becomes(status, Happening("Restarted", note, warning=True))


def _learn_from(status: TrainingJobStatus, verdict: Verdict, facts: Facts) -> tuple[TrainingJobStatus, str]:
    """Keep the job away from a node on which its workers fail again and again; the longer, the more often. The second
    result says so, and is empty where it is not done."""
    patience, now_seconds = facts.around.patience, facts.now_seconds
    if not verdict.failed_on:
        return status, ""
    status = transitions.failed_on(status, verdict.failed_on, now_seconds)
    times = next(each.count for each in status.failures if each.node == verdict.failed_on)
    if times < patience.node_failures or not patience.avoid_node_seconds:
        return status, ""
    seconds = patience.avoid_node_seconds * (1 + times - patience.node_failures)
    text = f"worker failed there {times} times in a row, lastly: {verdict.message}"
    status = transitions.kept_away(status, (verdict.failed_on,), text, now_seconds + seconds, now_seconds)
    return status, f"kept away from {verdict.failed_on} for {seconds} s"
