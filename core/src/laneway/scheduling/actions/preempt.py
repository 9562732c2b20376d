"""Action: preempt. Jobs that come later in the order release GPUs for a gang that does not fit otherwise.

The preemption policy chooses the victims among the candidates; each victim is paused, offloaded or evicted, by the cheapest
sufficient action. The preemptor is pipelined on their GPUs: it starts in a later cycle, when they are released.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from laneway.api.job_names import JobSentence
from laneway.scheduling.actions.preemption_actions import cheapest_actions, cost_seconds
from laneway.scheduling.actions.victims import candidates, later_in_place
from laneway.scheduling.explain import reasons
from laneway.scheduling.framework.scenario import PreemptionScenario
from laneway.scheduling.framework.session import Session
from laneway.scheduling.framework.statement import Statement
from laneway.scheduling.gpus.views import FUTURE_IDLE
from laneway.scheduling.model.plan import Preemption, PreemptionAction, PreemptionReason
from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.model.unsaved_work import may_be_evicted
from laneway.scheduling.state.ranking import SortKey


def preempt_for(session: Session, job: Job, sort_key: SortKey) -> bool:
    """Preempt other jobs for a job, if its gang fits without them."""
    if session.preemptors >= session.max_preemptors or not job.demand.preempts:
        return False
    groups = candidates(session, job, sort_key)
    preferred = next(groups, None)
    if preferred is None:
        return False
    statement = session.statement()
    scenario = PreemptionScenario(
        session.state,
        statement,
        job,
        lambda: session.place(job, FUTURE_IDLE),
        lambda victim: may_be_evicted(victim, job.priority, session.now_seconds),
    )
    nobody_preempted = statement.checkpoint()
    for group in chain([preferred], groups):
        victims = session.policies.preemption.victims(group, scenario)
        if victims:
            return preempt_victims(session, job, statement, scenario, victims)
        statement.rollback(nobody_preempted)
    return False


def preempt_in_place(session: Session, job: Job, sort_key: SortKey) -> bool:
    """Pause or offload later jobs on a paused job's own GPUs, if it can resume without them.

    So jobs whose memory does not fit on a GPU together take turns by moving it to the host and back, as in Harmony (Li et al., VLDB 2022),
    and none has to be evicted. Nobody is evicted for it: it could also wait where it is.
    """
    if session.preemptors >= session.max_preemptors or not job.demand.preempts:
        return False
    there = later_in_place(session, job, sort_key)
    if not there:
        return False
    statement = session.statement()
    scenario = PreemptionScenario(
        session.state,
        statement,
        job,
        lambda: job.placement if session.can_resume(job.key, FUTURE_IDLE) else None,
        lambda _: False,
    )
    victims = session.policies.preemption.victims(there, scenario)
    if not victims:
        statement.rollback()
        return False
    return preempt_victims(session, job, statement, scenario, victims)


def preempt_victims(
    session: Session, job: Job, statement: Statement, scenario: PreemptionScenario, victims: Sequence[Job]
) -> bool:
    """Preempt these jobs by the cheapest sufficient actions, and pipeline a job on their GPUs; return whether that is enough.

    Args:
        session: the cycle's.
        job: the preemptor.
        statement: ends.
        scenario: of the statement.
        victims: enough of them.
    """
    found = cheapest_actions(scenario, victims, session.state)
    if found is None:
        statement.rollback()
        return False
    actions, placement = found
    statement.preempt(actions)
    statement.pipeline(job, placement)
    statement.commit()

    preemptions = [_preemption(session, victim, job, actions[victim.key]) for victim in victims]
    session.decision.preemptions.update({each.job: each for each in preemptions})
    session.decision.waiting[job.key] = reasons.awaiting_preemption(preemptions)
    session.anything_releasing = True
    session.preemptors += 1
    return True


def _preemption(session: Session, victim: Job, preemptor: Job, action: PreemptionAction) -> Preemption:
    ranks = session.state.ranking.ranks
    queue, victims_queue = ranks[preemptor.key].queue, ranks[victim.key].queue
    reason = PreemptionReason.HIGHER_QUEUE
    if victim.priority < preemptor.priority:
        reason = PreemptionReason.HIGHER_PRIORITY
        why, unnamed = f"priority {preemptor.priority} before {victim.priority}", "of a higher priority"
    elif queue != victims_queue:
        why, unnamed = f"queue {queue} before queue {victims_queue}", "in a higher queue"
    else:
        why = unnamed = "earlier in the order"
    message = JobSentence("Preempted by ", (preemptor.key,), f" ({why}).", after_unnamed=f" ({unnamed}).")
    cost = cost_seconds(victim, action, session.state)
    return Preemption(victim.key, reason, message, preemptor.key, action, cost)
