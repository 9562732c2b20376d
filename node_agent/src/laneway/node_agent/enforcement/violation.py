"""The limits of a container on a GPU, and whether it exceeds them: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from laneway.api.container_record import ContainerRecord
from laneway.api.quantity import format_bytes
from laneway.node_agent.turns.turn_time import TurnUse

QUOTA_EXCEEDED = "MemoryQuotaExceeded"
NOT_COVERED = "MemoryNotCovered"
NOT_RELEASED = "TurnNotReleased"
NOT_INTERPOSED = "InterposerNotLoaded"
NO_TURN = "ComputesWithoutTurn"
REASONS = (QUOTA_EXCEEDED, NOT_COVERED, NOT_RELEASED, NOT_INTERPOSED, NO_TURN)


@dataclass(frozen=True, slots=True)
class Claim:
    """One container's claim to one GPU at the time of a check."""

    gpu: str
    record: ContainerRecord
    folder: Path
    quota_bytes: int
    session_pids: frozenset[int] = frozenset()
    """Its processes that have or had a session and are alive."""

    uncovered: str = ""
    """Why it gets no turns although it holds memory; empty if it does."""

    overdue_release: str = ""
    """That it keeps memory which others of its lane have waited for too long, as a clause; empty if not."""

    interposed_pids: frozenset[int] = frozenset()
    """Its processes that keep a memory account, so the interposer is loaded in them."""

    uninterposed_bytes: int | None = None
    """What each of its other processes may hold; None: any amount."""

    simulated: bool = False
    """Whether the GPU is simulated: there the memory of frameworks does not pass the interposer."""

    turns: TurnUse = field(default_factory=TurnUse)
    """Its turns at the time of the check."""

    without_turn: str = ""
    """That it computes without a turn, as a clause; empty if it does not."""

    @property
    def key(self) -> tuple[str, str]:
        """Return the claim's key: the GPU's uuid and the container's key."""
        return self.gpu, self.record.key

    @property
    def name(self) -> str:
        """Return the container's name for messages."""
        return f"{self.record.namespace}/{self.record.pod}/{self.record.container}"

    def limit_bytes(self, tolerance_percent: int) -> int:
        """Return what its processes may hold together: the quota, which includes their frameworks' memory,
        plus the tolerance."""
        return self.quota_bytes * (100 + tolerance_percent) // 100


@dataclass(frozen=True, slots=True)
class Violation:
    """A container's violation of a limit."""

    reason: str
    """One CamelCase word."""

    text: str
    """A clause."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of checking a claim."""

    violation: Violation | None
    """The current violation; if this check is inconclusive, that of the last conclusive one."""

    conclusive: bool


def check_claim(
    claim: Claim, process_bytes: Mapping[int, int] | None, tolerance_percent: int, previous: Violation | None
) -> CheckResult:
    """Check a container's claim.

    Args:
        claim: the container's claim.
        process_bytes: its processes' memory on the GPU, by pid; None if there is no new reading.
        tolerance_percent: tolerated excess over the quota.
        previous: the violation found by the previous check.
    """
    if process_bytes is not None:
        return CheckResult(violation_of(claim, process_bytes, tolerance_percent), conclusive=True)
    found = _known_without_reading(claim)
    if found is not None or (previous is not None and previous.reason in (NOT_COVERED, NOT_RELEASED)):
        return CheckResult(found, conclusive=True)
    return CheckResult(previous, conclusive=False)


def violation_of(claim: Claim, process_bytes: Mapping[int, int], tolerance_percent: int) -> Violation | None:
    """Return a container's violation; None if it keeps its limits.

    Args:
        claim: the container's claim.
        process_bytes: its processes' memory on the GPU, by pid.
        tolerance_percent: tolerated excess over the quota.
    """
    held_bytes = sum(process_bytes.values())
    if held_bytes > claim.limit_bytes(tolerance_percent):
        held, quota = format_bytes(held_bytes), format_bytes(claim.quota_bytes)
        count = "its process holds" if len(process_bytes) == 1 else f"its {len(process_bytes)} processes hold"
        return Violation(
            QUOTA_EXCEEDED,
            f"{count} {held} of GPU memory as the driver reports, more than its quota of {quota}",
        )
    found = _without_interposer(claim, process_bytes) or _known_without_reading(claim)
    return found or (Violation(NO_TURN, claim.without_turn) if claim.without_turn else None)


def _known_without_reading(claim: Claim) -> Violation | None:
    """Return the violation that the agent knows from its own accounts."""
    if claim.uncovered:
        return Violation(NOT_COVERED, claim.uncovered)
    if claim.overdue_release:
        return Violation(NOT_RELEASED, claim.overdue_release)
    return None


def _without_interposer(claim: Claim, process_bytes: Mapping[int, int]) -> Violation | None:
    if claim.uninterposed_bytes is None:
        return None
    outside = [held for pid, held in process_bytes.items() if pid not in claim.interposed_pids]
    most_bytes = max(outside, default=0)
    if most_bytes <= claim.uninterposed_bytes:
        return None
    remedy = (
        "this GPU is simulated, where the memory of PyTorch does not pass the interposer, so demand 'Watchdog' at most"
        if claim.simulated
        else "run no static and no musl program, and leave /etc/ld.so.preload as it is"
    )
    return Violation(
        NOT_INTERPOSED,
        f"a process holds {format_bytes(most_bytes)} of GPU memory without the memory interposer, and the pod demands the enforcement "
        f"{claim.record.minimum_enforcement!r}: {remedy}",
    )
