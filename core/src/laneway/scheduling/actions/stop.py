"""Action: stop. Jobs end for reasons of their own: they are suspended, or restart with another number of workers."""

from __future__ import annotations

from laneway.scheduling.framework.session import Session
from laneway.scheduling.model.plan import Preemption, PreemptionAction, PreemptionReason
from laneway.scheduling.model.snapshot import JobState


def stop_suspended(session: Session) -> None:
    """Stop the suspended jobs that hold GPUs."""
    for key in sorted(session.state.suspended):
        stop(
            session, key, PreemptionReason.SUSPENDED, "The job is suspended: it stops at its next checkpoint."
        )


def rescale(session: Session) -> None:
    """Stop the malleable jobs that are to have another number of workers; they restart with it."""
    for key, workers in sorted(session.state.worker_counts.items()):
        job = session.state.jobs[key]
        if job.state is JobState.RUNNING and len(job.placement) != workers and job.preemptible:
            stop(
                session,
                key,
                PreemptionReason.RESCALED,
                f"Rescaled from {len(job.placement)} to {workers} workers: it restarts from its checkpoint.",
            )
            session.decision.rescales[key] = workers


def stop(session: Session, key: str, reason: PreemptionReason, message: str) -> None:
    """Evict a job for a reason of its own."""
    if key not in session.decision.preemptions:
        session.decision.preemptions[key] = Preemption(key, reason, message, None)
        statement = session.statement()
        statement.preempt({key: PreemptionAction.EVICT})
        statement.commit()
        session.anything_releasing = True
