"""Action: stop. Jobs end for reasons of their own: they are suspended, or restart with another number of workers (:mod:`.rescale`)."""

from __future__ import annotations

from laneway.api.job_names import Sentence
from laneway.scheduling.framework.session import Session
from laneway.scheduling.model.plan import Preemption, PreemptionAction, PreemptionReason


def stop_suspended(session: Session) -> None:
    """Stop the suspended jobs that hold GPUs."""
    for key in sorted(session.state.suspended):
        stop(session, key, PreemptionReason.SUSPENDED, "Suspended by spec.suspend.")


def stop(session: Session, key: str, reason: PreemptionReason, message: Sentence) -> None:
    """Evict a job for a reason of its own."""
    if key not in session.decision.preemptions:
        session.decision.preemptions[key] = Preemption(key, reason, message, None)
        statement = session.statement()
        statement.preempt({key: PreemptionAction.EVICT})
        statement.commit()
        session.anything_releasing = True
