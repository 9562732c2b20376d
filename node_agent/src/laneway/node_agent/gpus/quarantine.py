"""Decides whether a GPU may be used: a pure function from one check to the next.

A finding puts the GPU in quarantine: an XID that the policy does not ignore, a call that fails or hangs, or
broken memory. The gravest finding's :class:`ExitCondition` decides when it ends. A driver that did not answer
has to answer a few times in a row. After an error of the GPU, it also has to be free of errors for a while,
so that an intermittent error does not evict jobs twice. An error that only a reset mends needs a sign of one:
a reboot of the node, a driver that stops requesting a reset, or an error count that restarts. Only an
operator's request ends a quarantine at once.
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

_MIG = "mig"
"""Kind of the finding that a GPU is in MIG mode."""


class ExitCondition(IntEnum):
    """What ends a quarantine, the weakest first."""

    CHECKS = 1
    """Several checks in a row without a finding."""

    TIME = 2
    """Those checks, and a period without a finding."""

    RESET = 3
    """A reset of the GPU or a reboot of the node, and then a period without a finding."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Why a GPU is in quarantine, and since when."""

    causes: Mapping[str, str]
    """The first finding of each kind, in order of appearance."""

    since_seconds: float
    """CLOCK_REALTIME."""

    exit_condition: ExitCondition
    reset_requested: bool = False
    """The driver requested a reset or a reboot since the quarantine began."""

    def reason(self, config: HealthConfig) -> str:
        """Return the findings and what would end the quarantine, as a clause."""
        found = "; ".join(self.causes.values())
        if self.exit_condition is ExitCondition.RESET:
            return f"{found}; it needs a reset or a reboot of the node, or an operator's `laneway-node-agent gpu clear`"
        if self.exit_condition is ExitCondition.TIME:
            return f"{found}; it returns after {config.clean_seconds} s without errors"
        returns = "MIG mode is off" if _MIG in self.causes else "it answers again"
        return f"{found}; it returns when {returns}"


@dataclass(frozen=True, slots=True)
class GPUState:
    """What is known of a GPU from its checks."""

    quarantine: Quarantine | None = None
    uncorrected: int | None = None
    """The last count of uncorrected memory errors."""

    clean_checks: int = 0
    """Clean checks in a row during the quarantine."""

    clean_since_seconds: float | None = None
    """CLOCK_MONOTONIC of the first clean check."""


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """The result of one check."""

    monotonic_seconds: float
    realtime_seconds: float
    reading: GPUReading | None = None
    error: GPUError | None = None
    """Why there is no reading."""

    xids: tuple[int, ...] = ()
    """XIDs since the last check."""

    rebooted: bool = False
    """The node was booted since the last check."""

    cleared: bool = False
    """An operator declared the GPU healthy."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A reason not to use a GPU."""

    kind: str
    text: str
    exit_condition: ExitCondition


def after_check(state: GPUState, check: HealthCheck, config: HealthConfig) -> GPUState:
    """Return the state after another check."""
    findings = list(_findings(state, check, config))
    quarantine = None if check.cleared else state.quarantine
    needs_reset = quarantine is not None and quarantine.exit_condition is ExitCondition.RESET
    if quarantine is not None and needs_reset and (check.rebooted or _shows_reset(state, check)):
        quarantine = replace(quarantine, exit_condition=ExitCondition.TIME, reset_requested=False)
        state = replace(state, clean_checks=0, clean_since_seconds=None)
    uncorrected = state.uncorrected if check.reading is None else check.reading.errors.uncorrected
    if findings:
        return GPUState(_merged(quarantine, findings, check), uncorrected)
    if quarantine is None:
        return GPUState(None, uncorrected)
    since_seconds = (
        check.monotonic_seconds if state.clean_since_seconds is None else state.clean_since_seconds
    )
    checks = state.clean_checks + 1
    if _may_exit(quarantine.exit_condition, checks, check.monotonic_seconds - since_seconds, config):
        return GPUState(None, uncorrected)
    return GPUState(quarantine, uncorrected, checks, since_seconds)


def _may_exit(
    exit_condition: ExitCondition, clean_checks: int, clean_seconds: float, config: HealthConfig
) -> bool:
    if exit_condition is ExitCondition.RESET or clean_checks < config.clean_probes:
        return False
    return exit_condition is ExitCondition.CHECKS or clean_seconds >= config.clean_seconds


def warning_of(errors: GPUErrors) -> str:
    """Return a warning about a GPU that works, as a clause; empty if there is none."""
    if errors.remap_pending:
        return "bad memory will be replaced at the next reset"
    return ""


def _findings(state: GPUState, check: HealthCheck, config: HealthConfig) -> Iterator[Finding]:
    for number in check.xids:
        severity = severity_of(number, config)
        if severity is not XidClass.IGNORED:
            yield Finding(
                f"xid-{number}",
                describe(number),
                ExitCondition.RESET if severity is XidClass.RESET else ExitCondition.TIME,
            )
    if check.error is not None:
        yield _finding_of(check.error)
    if check.reading is not None:
        yield from _findings_of(check.reading.errors, state.uncorrected)
        if check.reading.mig:
            text = "MIG mode is on, and Laneway does not share MIG instances"
            yield Finding(_MIG, text, ExitCondition.CHECKS)


def _finding_of(error: GPUError) -> Finding:
    # If the driver answers, it has found the GPU again: no reset has to be seen.
    if isinstance(error, GPUHangError):
        return Finding("hang", f"the driver hangs: {error}", ExitCondition.CHECKS)
    if isinstance(error, GPULostError):
        return Finding("lost", f"the GPU is lost: {error}", ExitCondition.CHECKS)
    return Finding("error", str(error), ExitCondition.CHECKS)


def _findings_of(errors: GPUErrors, before: int | None) -> Iterator[Finding]:
    if errors.uncorrected is not None and before is not None and errors.uncorrected > before:
        # An XID (94 or 95) tells whether they were contained.
        yield Finding("uncorrected", "uncorrected memory errors", ExitCondition.TIME)
    if errors.remap_failed:
        yield Finding("remap-failed", "bad memory could not be replaced: replace the GPU", ExitCondition.TIME)
    if errors.recovery is Recovery.DRAIN:
        yield Finding(
            "recovery", f"the driver says that it needs {errors.recovery.value}", ExitCondition.TIME
        )
    if errors.recovery in (Recovery.RESET, Recovery.REBOOT):
        yield Finding(
            "recovery", f"the driver says that it needs {errors.recovery.value}", ExitCondition.RESET
        )


def _shows_reset(state: GPUState, check: HealthCheck) -> bool:
    if check.reading is None or state.quarantine is None:
        return False
    errors = check.reading.errors
    if state.quarantine.reset_requested and errors.recovery is Recovery.NONE:
        return True
    counted_before = state.uncorrected is not None and errors.uncorrected is not None
    return counted_before and (errors.uncorrected or 0) < (state.uncorrected or 0)


def _merged(quarantine: Quarantine | None, findings: list[Finding], check: HealthCheck) -> Quarantine:
    reset_requested = check.reading is not None and check.reading.errors.recovery in (
        Recovery.RESET,
        Recovery.REBOOT,
    )
    if quarantine is None:
        quarantine = Quarantine({}, check.realtime_seconds, ExitCondition.CHECKS)
    causes = dict(quarantine.causes)
    for finding in findings:
        causes.setdefault(finding.kind, finding.text)
    return Quarantine(
        causes=causes,
        since_seconds=quarantine.since_seconds,
        exit_condition=max(quarantine.exit_condition, *(finding.exit_condition for finding in findings)),
        reset_requested=quarantine.reset_requested or reset_requested,
    )
