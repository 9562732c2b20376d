"""The event of a job for which others are preempted."""

from __future__ import annotations

from laneway.operator.lifecycle.reconciled_job import JobEvent
from laneway.scheduling import Decision, PreemptionAction
from laneway.scheduling.explain.reasons import format_seconds

_WORDS = {
    PreemptionAction.PAUSE: "is paused",
    PreemptionAction.OFFLOAD: "is offloaded",
    PreemptionAction.EVICT: "is evicted",
}


def victims_for(job: str, decision: Decision) -> frozenset[str]:
    """Return the keys of the jobs that are preempted for a job."""
    return frozenset(each.job for each in decision.preemptions.values() if each.preemptor == job)


def preempting(job: str, decision: Decision) -> tuple[JobEvent, ...]:
    """Return what the victims of a job do, as one event; none where it has none."""
    victims = [decision.preemptions[key] for key in sorted(victims_for(job, decision))]
    if not victims:
        return ()
    text = "; ".join(
        f"{each.job} {_WORDS[each.action]} ({each.reason}, expected cost {format_seconds(each.cost_seconds)})"
        for each in victims
    )
    return (JobEvent("Preempting", f"Preempting other jobs: {text}."),)
