"""What the watchdog found about a container, written where its figures are kept. Called on the loop's thread."""

from __future__ import annotations

from dataclasses import dataclass

from laneway.api.enforcement import Enforcement
from laneway.node_agent.containers.record_file import is_same_container
from laneway.node_agent.enforcement.breach import Claim
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.hold import Hold
from laneway.node_agent.turns.notices import Notices


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a container stands."""

    enforcement: Enforcement = Enforcement.NONE
    """What holds for it beside its client."""

    text: str = ""
    """What is held against it, as a sentence; empty where nothing is."""


def note_verdict(turns: GPUTurns, claim: Claim, verdict: Verdict, notices: Notices) -> None:
    """Write down how a container stands."""
    hold = _hold_of(turns, claim)
    if hold is not None:
        hold.watched, hold.watch_text = verdict.enforcement, verdict.text
        notices.changed()


def note_eviction(turns: GPUTurns, claim: Claim, reason: str, text: str, notices: Notices) -> None:
    """Write down that a container's processes are being stopped: it stays with its figures after its end."""
    hold = _hold_of(turns, claim)
    if hold is not None:
        hold.evicted, hold.note = reason, text
        notices.noted(hold, reason, text)


def _hold_of(turns: GPUTurns, claim: Claim) -> Hold | None:
    """Return the container's hold; None where its key has gone to another one, or to nobody."""
    hold = turns.holds.get(claim.record.key)
    return hold if hold is not None and is_same_container(hold.record, claim.record) else None
