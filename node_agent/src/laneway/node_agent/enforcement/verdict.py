"""What the watchdog found about a container, written where its figures are kept. Called on the loop's thread."""

from __future__ import annotations

from dataclasses import dataclass

from laneway.api.enforcement import Enforcement
from laneway.node_agent.containers.record_file import is_same_container
from laneway.node_agent.enforcement.breach import Claim
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.notices import Notices


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a container stands."""

    enforcement: Enforcement = Enforcement.NONE
    """What holds for it beside its client."""

    text: str = ""
    """What is held against it, as a sentence; empty where nothing is."""

    evicted: str = ""
    """Why its processes were stopped, as one CamelCase word; empty where they were not, or others run in their place."""

    epitaph: str = ""
    """What was said when its processes were last stopped, as a sentence."""


def note_verdict(turns: GPUTurns, claim: Claim, verdict: Verdict, notices: Notices) -> None:
    """Write down how a container stands."""
    hold = turns.holds.get(claim.record.key)
    if hold is None or not is_same_container(hold.record, claim.record):
        return  # its key has gone to another one, or to nobody
    hold.watched, hold.watch_text = verdict.enforcement, verdict.text
    hold.evicted, before, hold.epitaph = verdict.evicted, hold.epitaph, verdict.epitaph
    if hold.evicted and hold.epitaph != before:
        notices.noted(hold, hold.evicted, hold.epitaph)
    notices.changed()
