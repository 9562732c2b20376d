"""What is to be done about a container that breaks a limit, look by look: pure.

    kept ──breach──▶ warned ──grace spent──▶ announced ──▶ terminating (SIGTERM) ──kill time──▶ killing (SIGKILL)

Time in breach is spent of the grace and time without gives it back, so a container that keeps to its limit only now and
then is stopped as well, later. Between the announcement and SIGTERM lies a moment in which the GPUNode is written: who looks
at the pod's end finds its reason there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto


class Stage(Enum):
    """How far it has come with a container."""

    KEPT = auto()
    """It keeps to its limits."""
    WARNED = auto()
    ANNOUNCED = auto()
    """Its end is announced."""
    TERMINATING = auto()
    """Its processes were told to end."""
    KILLING = auto()


class Deed(Enum):
    """What is to be done after a look."""

    NOTHING = auto()
    WARN = auto()
    """Say that it breaks a limit, and what comes of that."""
    WITHDRAW = auto()
    """Say no more that it breaks one."""
    ANNOUNCE = auto()
    """Say that its processes are being stopped."""
    TERMINATE = auto()
    """Tell its processes to end."""
    KILL = auto()
    """End those that were told and have not."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How patient the watch is."""

    evicts: bool = True
    """False: it warns and never stops anybody."""

    grace_seconds: float = 30.0
    kill_seconds: float = 30.0
    announce_seconds: float = 1.0
    """At least between the announcement and SIGTERM."""

    longest_step_seconds: float = 10.0
    """So much at most is counted between two looks: what nobody looked at is held against nobody."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a look showed."""

    now_seconds: float
    breach: bool | None
    """Whether it breaks a limit; None: this look does not tell."""

    living: bool = False
    """Whether processes live that were told to end."""


@dataclass(frozen=True, slots=True)
class Watch:
    """What is remembered of a container from one look to the next."""

    stage: Stage = Stage.KEPT
    spent_seconds: float = 0.0
    """Of the grace."""

    seen_seconds: float = 0.0
    """When a look last told."""

    since_seconds: float = 0.0
    """When its stage began."""


def step(watch: Watch, sight: Sight, rules: Rules) -> tuple[Watch, Deed]:
    """Return how it stands after a look, and what is to be done now."""
    if watch.stage in (Stage.TERMINATING, Stage.KILLING):
        return _after_signal(watch, sight, rules)
    if watch.stage is Stage.ANNOUNCED:
        return _announced(watch, sight, rules)
    if sight.breach is None:
        return watch, Deed.NOTHING
    if watch.stage is Stage.KEPT:
        if not sight.breach:
            return watch, Deed.NOTHING
        return _enter(Watch(seen_seconds=sight.now_seconds), Stage.WARNED, sight), Deed.WARN
    return _warned(_count(watch, sight, rules), sight, rules)


def _warned(watch: Watch, sight: Sight, rules: Rules) -> tuple[Watch, Deed]:
    if not sight.breach and watch.spent_seconds <= 0:
        return Watch(), Deed.WITHDRAW
    if sight.breach and rules.evicts and watch.spent_seconds >= rules.grace_seconds:
        return _enter(watch, Stage.ANNOUNCED, sight), Deed.ANNOUNCE
    return watch, Deed.NOTHING


def _announced(watch: Watch, sight: Sight, rules: Rules) -> tuple[Watch, Deed]:
    if sight.breach is False:
        return _enter(_count(watch, sight, rules), Stage.WARNED, sight), Deed.WARN
    if sight.now_seconds - watch.since_seconds < rules.announce_seconds:
        return watch, Deed.NOTHING
    return _enter(watch, Stage.TERMINATING, sight), Deed.TERMINATE


def _after_signal(watch: Watch, sight: Sight, rules: Rules) -> tuple[Watch, Deed]:
    if not sight.living:
        # What starts in its place, the kubelet's restart say, has a grace of its own.
        return Watch(), Deed.WITHDRAW
    if watch.stage is Stage.KILLING:
        return watch, Deed.KILL
    if sight.now_seconds - watch.since_seconds < rules.kill_seconds:
        return watch, Deed.NOTHING
    return _enter(watch, Stage.KILLING, sight), Deed.KILL


def _count(watch: Watch, sight: Sight, rules: Rules) -> Watch:
    elapsed_seconds = min(max(0.0, sight.now_seconds - watch.seen_seconds), rules.longest_step_seconds)
    spent_seconds = watch.spent_seconds + (elapsed_seconds if sight.breach else -elapsed_seconds)
    spent_seconds = min(max(0.0, spent_seconds), rules.grace_seconds)
    return replace(watch, spent_seconds=spent_seconds, seen_seconds=sight.now_seconds)


def _enter(watch: Watch, stage: Stage, sight: Sight) -> Watch:
    return replace(watch, stage=stage, since_seconds=sight.now_seconds)
