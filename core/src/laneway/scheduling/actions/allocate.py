"""Action: allocate. A waiting gang gets idle GPUs, or is pipelined on GPUs that other jobs are releasing."""

from __future__ import annotations

from laneway.scheduling.explain import reasons
from laneway.scheduling.framework.session import Session
from laneway.scheduling.gpus.views import FUTURE_IDLE, IDLE
from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.state.waiting_queue import EquivalenceClass


def allocate(session: Session, job: Job, equivalence_class: EquivalenceClass, *, everywhere: bool) -> bool:
    """Start a job on idle GPUs, if its gang fits there.

    Args:
        session: the cycle's.
        job: it waits.
        equivalence_class: its own.
        everywhere: no node is closed to it by a reservation.
    """
    if equivalence_class in session.without_idle_gpus:
        return False
    placement = session.place(job, IDLE)
    if placement is None:
        if everywhere:
            session.without_idle_gpus.add(equivalence_class)
        return False
    statement = session.statement()
    statement.allocate(job, placement)
    statement.commit()
    session.decision.starts[job.key] = placement
    return True


def pipeline(session: Session, job: Job) -> bool:
    """Keep GPUs for a job that other jobs are releasing, if its gang fits there."""
    if not session.anything_releasing:
        return False
    placement = session.place(job, FUTURE_IDLE)
    if placement is None:
        return False
    releasing = session.state.allocations.releasing_for(job, placement)
    session.decision.waiting[job.key] = reasons.awaiting_release(releasing)
    statement = session.statement()
    statement.pipeline(job, placement)
    statement.commit()
    return True
