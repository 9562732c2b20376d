"""Whether a GPU may be used, as a pure function of what was seen of it: look by look, from one state to the next.

A finding takes the GPU out of use: an XID that the policy does not ignore, a call that fails or hangs, memory that broke. What
brings it back is its gravest finding's :class:`Cure`. A driver that did not answer has to answer a few times in a row; after
an error of the GPU it has to be without errors for a while as well, so that one that comes and goes moves nobody twice.
What no time cures first needs a sign that the GPU was reset: another boot of the node, a driver that had asked for a reset
and asks no longer, or a count of errors that starts anew. Only the word of an operator brings a GPU back at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum

from laneway.api.health_config import HealthConfig
from laneway.node_agent.gpus.protocol import (
    GPUError,
    GPUErrors,
    GPUHangError,
    GPULostError,
    GPUReading,
    Recovery,
)
from laneway.node_agent.gpus.xids import XidClass, describe, severity_of


class Cure(IntEnum):
    """What ends a quarantine, the least first."""

    LOOKS = 1
    """Some looks in a row without a finding."""

    TIME = 2
    """That, and a while without a finding."""

    RESET = 3
    """A reset of the GPU or a reboot of the node, and then that."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Why a GPU is out of use, and since when."""

    causes: Mapping[str, str]
    """What was found, by kind: the first sentence of each kind, in the order in which they came."""

    since_seconds: float
    """CLOCK_REALTIME."""

    cure: Cure
    reset_asked_for: bool = False
    """The driver was seen to ask for a reset, or a reboot, since it began."""

    def reason(self, config: HealthConfig) -> str:
        """Return it as a sentence: what was found, and what would end it."""
        found = "; ".join(self.causes.values())
        if self.cure is Cure.RESET:
            return f"{found}; it needs a reset or a reboot of the node, or an operator's `laneway-node-agent gpu clear`"
        if self.cure is Cure.TIME:
            return f"{found}; it comes back when it was without errors for {config.clean_seconds} s"
        return f"{found}; it comes back when it answers again"


@dataclass(frozen=True, slots=True)
class GPUState:
    """What is known of a GPU from the looks so far."""

    quarantine: Quarantine | None = None
    uncorrected: int | None = None
    """The last count of uncorrected memory errors."""

    clean_looks: int = 0
    """Since the last finding, while in quarantine."""

    clean_since_seconds: float | None = None
    """CLOCK_MONOTONIC of the first of them."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one look."""

    monotonic_seconds: float
    realtime_seconds: float
    reading: GPUReading | None = None
    error: GPUError | None = None
    """Why there is no reading."""

    xids: tuple[int, ...] = ()
    """Those since the look before."""

    rebooted: bool = False
    """The node was booted since the look before."""

    cleared: bool = False
    """An operator says that the GPU may be used again."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that speaks against the use of a GPU."""

    kind: str
    text: str
    cure: Cure


def after_look(state: GPUState, look: Look, config: HealthConfig) -> GPUState:
    """Return what is known of the GPU after another look."""
    findings = list(_findings(state, look, config))
    quarantine = None if look.cleared else state.quarantine
    needs_reset = quarantine is not None and quarantine.cure is Cure.RESET
    if quarantine is not None and needs_reset and (look.rebooted or _shows_reset(state, look)):
        quarantine = replace(quarantine, cure=Cure.TIME, reset_asked_for=False)
        state = replace(state, clean_looks=0, clean_since_seconds=None)
    uncorrected = state.uncorrected if look.reading is None else look.reading.errors.uncorrected
    if findings:
        return GPUState(_merged(quarantine, findings, look), uncorrected)
    if quarantine is None:
        return GPUState(None, uncorrected)
    since_seconds = look.monotonic_seconds if state.clean_since_seconds is None else state.clean_since_seconds
    looks = state.clean_looks + 1
    if _is_cured(quarantine.cure, looks, look.monotonic_seconds - since_seconds, config):
        return GPUState(None, uncorrected)
    return GPUState(quarantine, uncorrected, looks, since_seconds)


def _is_cured(cure: Cure, clean_looks: int, clean_seconds: float, config: HealthConfig) -> bool:
    if cure is Cure.RESET or clean_looks < config.clean_looks:
        return False
    return cure is Cure.LOOKS or clean_seconds >= config.clean_seconds


def warning_of(errors: GPUErrors) -> str:
    """Return what should be seen to although the GPU works, as a sentence; empty where there is nothing."""
    if errors.remap_pending:
        return "a part of its memory that went bad is replaced at the next reset"
    return ""


def _findings(state: GPUState, look: Look, config: HealthConfig) -> Iterator[Finding]:
    for number in look.xids:
        severity = severity_of(number, config)
        if severity is not XidClass.IGNORED:
            yield Finding(
                f"xid-{number}", describe(number), Cure.RESET if severity is XidClass.RESET else Cure.TIME
            )
    if look.error is not None:
        yield _finding_of(look.error)
    if look.reading is not None:
        yield from _findings_of(look.reading.errors, state.uncorrected)


def _finding_of(error: GPUError) -> Finding:
    # A driver that answers has found the GPU again: no reset has to be seen.
    if isinstance(error, GPUHangError):
        return Finding("hang", f"the driver hangs: {error}", Cure.LOOKS)
    if isinstance(error, GPULostError):
        return Finding("lost", f"the GPU is lost: {error}", Cure.LOOKS)
    return Finding("error", str(error), Cure.LOOKS)


def _findings_of(errors: GPUErrors, before: int | None) -> Iterator[Finding]:
    if errors.uncorrected is not None and before is not None and errors.uncorrected > before:
        # Whether they were contained, an XID (94 or 95) tells.
        yield Finding("uncorrected", "uncorrected memory errors", Cure.TIME)
    if errors.remap_failed:
        yield Finding("remap-failed", "bad memory could not be replaced: the GPU has to be", Cure.TIME)
    if errors.recovery is Recovery.DRAIN:
        yield Finding("recovery", f"the driver says that it needs {errors.recovery.value}", Cure.TIME)
    if errors.recovery in (Recovery.RESET, Recovery.REBOOT):
        yield Finding("recovery", f"the driver says that it needs {errors.recovery.value}", Cure.RESET)


def _shows_reset(state: GPUState, look: Look) -> bool:
    if look.reading is None or state.quarantine is None:
        return False
    errors = look.reading.errors
    if state.quarantine.reset_asked_for and errors.recovery is Recovery.NONE:
        return True
    counted_before = state.uncorrected is not None and errors.uncorrected is not None
    return counted_before and (errors.uncorrected or 0) < (state.uncorrected or 0)


def _merged(quarantine: Quarantine | None, findings: list[Finding], look: Look) -> Quarantine:
    asked_for = look.reading is not None and look.reading.errors.recovery in (Recovery.RESET, Recovery.REBOOT)
    if quarantine is None:
        quarantine = Quarantine({}, look.realtime_seconds, Cure.LOOKS)
    causes = dict(quarantine.causes)
    for finding in findings:
        causes.setdefault(finding.kind, finding.text)
    return Quarantine(
        causes=causes,
        since_seconds=quarantine.since_seconds,
        cure=max(quarantine.cure, *(finding.cure for finding in findings)),
        reset_asked_for=quarantine.reset_asked_for or asked_for,
    )
