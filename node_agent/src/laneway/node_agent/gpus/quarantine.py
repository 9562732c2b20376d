"""Whether a GPU may be used, as a pure function of what was seen of it: look by look, from one state to the next.

A finding takes the GPU out of use: an XID that the policy does not ignore, a call that fails or hangs, memory that broke. It
comes back when it was clean for a while, in time and in looks, so that an error that comes and goes moves nobody twice.
Findings that no time cures (:attr:`XidClass.RESET`) first need a sign that the GPU was reset: another boot of the node, a
driver that had asked for a reset and asks no longer, or a count of errors that starts anew. Then it, too, has to be clean
for a while. Only the word of an operator brings a GPU back at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Why a GPU is out of use, and since when."""

    causes: Mapping[str, str]
    """What was found, by kind: the first sentence of each kind, in the order in which they came."""

    since_seconds: float
    """CLOCK_REALTIME."""

    needs_reset: bool = False
    """Time alone does not end it."""

    reset_asked_for: bool = False
    """The driver was seen to ask for a reset, or a reboot, since it began."""

    def reason(self, config: HealthConfig) -> str:
        """Return it as a sentence: what was found, and what would end it."""
        found = "; ".join(self.causes.values())
        if self.needs_reset:
            return f"{found}; it needs a reset or a reboot of the node, or an operator's `laneway-node-agent gpu clear`"
        return f"{found}; it comes back when it was without errors for {config.clean_seconds} s"


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
    needs_reset: bool


def after_look(state: GPUState, look: Look, config: HealthConfig) -> GPUState:
    """Return what is known of the GPU after another look."""
    findings = list(_findings(state, look, config))
    quarantine = None if look.cleared else state.quarantine
    if quarantine is not None and quarantine.needs_reset and (look.rebooted or _shows_reset(state, look)):
        quarantine = replace(quarantine, needs_reset=False, reset_asked_for=False)
        state = replace(state, clean_looks=0, clean_since_seconds=None)
    uncorrected = state.uncorrected if look.reading is None else look.reading.errors.uncorrected
    if findings:
        return GPUState(_merged(quarantine, findings, look), uncorrected)
    if quarantine is None:
        return GPUState(None, uncorrected)
    since_seconds = look.monotonic_seconds if state.clean_since_seconds is None else state.clean_since_seconds
    looks = state.clean_looks + 1
    long_enough = look.monotonic_seconds - since_seconds >= config.clean_seconds
    if not quarantine.needs_reset and looks >= config.clean_looks and long_enough:
        return GPUState(None, uncorrected)
    return GPUState(quarantine, uncorrected, looks, since_seconds)


def warning_of(errors: GPUErrors) -> str:
    """Return what should be seen to although the GPU works, as a sentence; empty where there is nothing."""
    if errors.remap_pending:
        return "a part of its memory that went bad is replaced at the next reset"
    return ""


def _findings(state: GPUState, look: Look, config: HealthConfig) -> Iterator[Finding]:
    for number in look.xids:
        severity = severity_of(number, config)
        if severity is not XidClass.IGNORED:
            yield Finding(f"xid-{number}", describe(number), severity is XidClass.RESET)
    if look.error is not None:
        yield _finding_of(look.error)
    if look.reading is not None:
        yield from _findings_of(look.reading.errors, state.uncorrected)


def _finding_of(error: GPUError) -> Finding:
    # A driver that answers again has found the GPU again, so none of these needs a reset to be seen.
    if isinstance(error, GPUHangError):
        return Finding("hang", f"the driver hangs: {error}", needs_reset=False)
    if isinstance(error, GPULostError):
        return Finding("lost", f"the GPU is lost: {error}", needs_reset=False)
    return Finding("error", str(error), needs_reset=False)


def _findings_of(errors: GPUErrors, before: int | None) -> Iterator[Finding]:
    if errors.uncorrected is not None and before is not None and errors.uncorrected > before:
        # Whether they were contained, an XID (94 or 95) tells.
        yield Finding("uncorrected", "uncorrected memory errors", needs_reset=False)
    if errors.remap_failed:
        yield Finding(
            "remap-failed", "bad memory could not be replaced: the GPU has to be", needs_reset=False
        )
    if errors.recovery is Recovery.DRAIN:
        yield Finding("recovery", f"the driver says that it needs {errors.recovery.value}", needs_reset=False)
    if errors.recovery in (Recovery.RESET, Recovery.REBOOT):
        yield Finding("recovery", f"the driver says that it needs {errors.recovery.value}", needs_reset=True)


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
        quarantine = Quarantine({}, look.realtime_seconds)
    causes = dict(quarantine.causes)
    for finding in findings:
        causes.setdefault(finding.kind, finding.text)
    return Quarantine(
        causes=causes,
        since_seconds=quarantine.since_seconds,
        needs_reset=quarantine.needs_reset or any(finding.needs_reset for finding in findings),
        reset_asked_for=quarantine.reset_asked_for or asked_for,
    )
