"""Action: resume. A paused or offloaded job takes turns again where it is."""

from __future__ import annotations

from laneway.scheduling.actions.preempt import preempt_in_place
from laneway.scheduling.actions.reserve import reserve_in_place
from laneway.scheduling.explain import reasons
from laneway.scheduling.framework.session import Session
from laneway.scheduling.gpus.views import IDLE
from laneway.scheduling.state.ranking import FIRST, SortKey


def resume(session: Session, sort_key: SortKey) -> bool:
    """Resume a paused job if its GPUs have turns and memory for it, and it may join those that are there; else let it preempt
    later jobs there, and if it goes first, reserve its GPUs."""
    key = sort_key[-1]
    if key in session.decision.preemptions:
        return False
    if not session.can_resume(key, IDLE):
        job = session.state.jobs[key]
        session.decision.waiting[key] = reasons.paused(job.state)
        if not preempt_in_place(session, job, sort_key) and sort_key[1] == FIRST:
            reserve_in_place(session, job, sort_key)
        return False
    statement = session.statement()
    statement.resume(key)
    statement.commit()
    session.decision.resumes.append(key)
    return True
