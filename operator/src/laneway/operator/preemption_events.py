"""What the job is told for which others make way."""

from __future__ import annotations

from laneway.operator.standing import Happening
from laneway.scheduling import Depth, Plan
from laneway.scheduling.explanation import seconds

_WORDS = {
    Depth.PAUSE: "pauses",
    Depth.OFFLOAD: "moves its memory to the host",
    Depth.EVICT: "saves its checkpoint and ends",
}


def victims_for(job: str, planned: Plan) -> frozenset[str]:
    """Return who makes way for a job in this plan."""
    return frozenset(each.job for each in planned.preemptions.values() if each.beneficiary == job)


def made_way_for(job: str, planned: Plan) -> tuple[Happening, ...]:
    """Return what others do for a job in this plan, as one event; none where nobody makes way for it."""
    victims = [planned.preemptions[key] for key in sorted(victims_for(job, planned))]
    if not victims:
        return ()
    text = "; ".join(
        f"{each.job} {_WORDS[each.depth]} ({each.reason}, at a cost of about {seconds(each.cost_seconds)})"
        for each in victims
    )
    return (Happening("Preempting", f"Others make way for it: {text}."),)
