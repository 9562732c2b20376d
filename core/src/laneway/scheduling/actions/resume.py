"""Action: resume. A paused or offloaded job takes turns again where it is."""

from __future__ import annotations

from laneway.scheduling.explain import reasons
from laneway.scheduling.framework.session import Session


def resume(session: Session, key: str) -> bool:
    """Resume a paused job if its GPUs have turns and memory for it."""
    if key in session.decision.preemptions:
        return False
    if not session.state.allocations.can_resume(key):
        session.decision.waiting[key] = reasons.paused(session.state.jobs[key].state)
        return False
    statement = session.statement()
    statement.resume(key)
    statement.commit()
    session.decision.resumes.append(key)
    return True
