"""Decides what to do about a container that violates a limit, check by check: pure.

    compliant ──violation──▶ warned ──grace spent──▶ announced ──▶ terminating (SIGTERM) ──kill time──▶ killing (SIGKILL)

Time in violation uses up the grace period, and time without restores it slowly. So a container that complies
only now and then is stopped as well: at the latest once it was in violation for twice its grace within twenty
times its grace. The announcement is final. Before SIGTERM the GPUNode is written, so that the pod's end can be
explained there.

Processes that follow in a container after a stop are stopped without a new grace, and by SIGKILL at once. If
others follow again, all processes of the container are stopped, so that its pod's restart policy applies.
Otherwise a supervisor in the container could hold the memory all along with a succession of processes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto


class Stage(Enum):
    """How far the escalation against a container has come."""

    COMPLIANT = auto()
    """It keeps its limits."""
    WARNED = auto()
    ANNOUNCED = auto()
    """Its eviction is announced."""
    TERMINATING = auto()
    """Its processes were sent SIGTERM."""
    KILLING = auto()


class Action(Enum):
    """What to do after a check."""

    NOTHING = auto()
    WARN = auto()
    """Publish the violation and its consequences."""
    WITHDRAW = auto()
    """Withdraw the warning, or report that the stopped processes have ended."""
    ANNOUNCE = auto()
    """Publish that its processes are being stopped."""
    TERMINATE = auto()
    """Send SIGTERM."""
    KILL = auto()
    """Send SIGKILL to its processes, those that were not sent SIGTERM included."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Settings of the escalation."""

    evicts: bool = True
    """False: it warns and never stops anybody."""

    grace_seconds: float = 30.0
    kill_seconds: float = 30.0
    announce_seconds: float = 1.0
    """Minimum time between the announcement and SIGTERM."""

    stops_of_processes: int = 2
    """After this many stops of the processes on the GPU, the next one stops all processes of the container."""

    restored_per_second: float = 0.05
    """Grace that a second of compliance restores."""

    longest_step_seconds: float = 10.0
    """The most time counted between two checks, so that unobserved time is not held against a container."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of one check."""

    now_seconds: float
    violation: bool | None
    """Whether it violates a limit; None: this check was inconclusive."""

    alive: bool = False
    """Whether processes that were sent a signal are still alive."""

    urgent: bool = False
    """Another container lacks the memory now, so a violation gets no more grace."""


@dataclass(frozen=True, slots=True)
class Escalation:
    """The state kept for a container between checks."""

    stage: Stage = Stage.COMPLIANT
    spent_seconds: float = 0.0
    """Spent grace."""

    seen_seconds: float | None = None
    """When a check was last conclusive; None: never."""

    since_seconds: float = 0.0
    """When its stage began."""

    stops: int = 0
    """How often its processes were stopped since it last had its whole grace."""

    def stops_container(self, rules: Rules) -> bool:
        """Return whether this stop is of all processes of the container."""
        return self.stops > rules.stops_of_processes


def step(escalation: Escalation, observation: Observation, rules: Rules) -> tuple[Escalation, Action]:
    """Return the state after a check, and the action to take now."""
    if escalation.stage in (Stage.TERMINATING, Stage.KILLING):
        return _after_signal(escalation, observation, rules)
    if escalation.stage is Stage.ANNOUNCED:
        return _after_announcement(escalation, observation, rules)
    if observation.violation is None:
        return escalation, Action.NOTHING
    escalation = _count_time(escalation, observation, rules)
    if escalation.stage is Stage.WARNED:
        return _after_warning(escalation, observation, rules)
    if observation.violation:
        return _enter(escalation, Stage.WARNED, observation), Action.WARN
    return escalation, Action.NOTHING


def _after_warning(
    escalation: Escalation, observation: Observation, rules: Rules
) -> tuple[Escalation, Action]:
    if not observation.violation and escalation.spent_seconds <= 0:
        return _enter(replace(escalation, stops=0), Stage.COMPLIANT, observation), Action.WITHDRAW
    if observation.violation and rules.evicts and escalation.spent_seconds >= rules.grace_seconds:
        return _enter(escalation, Stage.ANNOUNCED, observation), Action.ANNOUNCE
    return escalation, Action.NOTHING


def _after_announcement(
    escalation: Escalation, observation: Observation, rules: Rules
) -> tuple[Escalation, Action]:
    if observation.now_seconds - escalation.since_seconds < rules.announce_seconds:
        return escalation, Action.NOTHING
    escalation = replace(escalation, stops=escalation.stops + 1)
    if escalation.stops > 1:
        return _enter(escalation, Stage.KILLING, observation), Action.KILL
    return _enter(escalation, Stage.TERMINATING, observation), Action.TERMINATE


def _after_signal(
    escalation: Escalation, observation: Observation, rules: Rules
) -> tuple[Escalation, Action]:
    if not observation.alive:
        # Processes that follow in the same container have no new grace; those of a new container do.
        spent = replace(escalation, spent_seconds=rules.grace_seconds, seen_seconds=observation.now_seconds)
        return _enter(spent, Stage.WARNED, observation), Action.WITHDRAW
    if escalation.stage is Stage.KILLING:
        return escalation, Action.KILL
    if observation.now_seconds - escalation.since_seconds < rules.kill_seconds:
        return escalation, Action.NOTHING
    return _enter(escalation, Stage.KILLING, observation), Action.KILL


def _count_time(escalation: Escalation, observation: Observation, rules: Rules) -> Escalation:
    """Charge the time since the last conclusive check to what this check found."""
    seen_seconds = observation.now_seconds if escalation.seen_seconds is None else escalation.seen_seconds
    elapsed_seconds = min(max(0.0, observation.now_seconds - seen_seconds), rules.longest_step_seconds)
    if not observation.violation:
        spent_seconds = escalation.spent_seconds - elapsed_seconds * rules.restored_per_second
    elif observation.urgent:
        spent_seconds = rules.grace_seconds
    else:
        spent_seconds = escalation.spent_seconds + elapsed_seconds
    return replace(
        escalation,
        spent_seconds=min(max(0.0, spent_seconds), rules.grace_seconds),
        seen_seconds=observation.now_seconds,
    )


def _enter(escalation: Escalation, stage: Stage, observation: Observation) -> Escalation:
    return replace(escalation, stage=stage, since_seconds=observation.now_seconds)
