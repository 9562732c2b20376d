"""What waiting jobs are told beyond the reason, now and then: who is ahead, when they may start, what would let them start now.

None of it decides anything, and it costs more than a decision that has little to do. So estimates are made for all in line together, and alternatives are
tried for a few jobs in a cycle, those first that were tried longest ago.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from laneway.api.clock_text import to_seconds, to_text
from laneway.api.job_standing import WaitingStatus
from laneway.operator.config import CycleConfig
from laneway.scheduling import Advice, Plan, Scheduler, WaitingCode
from laneway.scheduling.advice import ESTIMATED

_TRIED_IN_A_CYCLE = 4
_SOON_SECONDS = 1.0
"""After so long a job that is new in line gets its estimate."""

_SAME_SECONDS, _SAME_RATIO = 60.0, 0.25
"""An estimate that moved by no more than this, of what is left until then, is not told anew."""

_SELF_EXPLAINING = frozenset(
    {
        WaitingCode.SUSPENDED,
        WaitingCode.AWAITING_PREEMPTION,
        WaitingCode.AWAITING_DEPARTURE,
        WaitingCode.NOT_CONSIDERED,
    }
)
"""Reasons with which nobody asks what to change."""

_ADVICE_FIELDS = ("estimated_start", "estimate_basis", "alternatives", "advised_at")
_NO_ADVICE = Advice()


@dataclass(frozen=True, slots=True)
class _Tried:
    at_seconds: float
    alternatives: tuple[str, ...]


class Adviser:
    """Gives advice, and remembers what it gave."""

    def __init__(self, config: CycleConfig) -> None:
        self._interval_seconds = float(config.advise_seconds)
        self._advised_seconds = -self._interval_seconds
        self._advice: dict[str, Advice] = {}
        self._tried: dict[str, _Tried] = {}

    def update(self, scheduler: Scheduler, planned: Plan, now_seconds: float) -> None:
        """Give advice where it is due.

        Args:
            scheduler: as its plan left it.
            planned: that plan.
            now_seconds: Unix time.
        """
        first = list(islice(planned.waiting, ESTIMATED))
        interval_seconds = self._interval_seconds
        if any(key not in self._advice for key in first):
            interval_seconds = min(interval_seconds, _SOON_SECONDS)
        if not first:
            self._advice.clear()
        elif now_seconds >= self._advised_seconds + interval_seconds:
            self._advice = dict(scheduler.advise(planned, first, now_seconds))
            self._advised_seconds = now_seconds
        self._tried = {key: tried for key, tried in self._tried.items() if key in planned.waiting}
        for key in self._due(planned, first, now_seconds):
            self._tried[key] = _Tried(now_seconds, scheduler.alternatives(key))

    def is_news(self, key: str, waiting: WaitingStatus | None) -> bool:
        """Whether there is advice to a job that is worth a write of its status."""
        if waiting is None:
            return False
        tried = self._tried.get(key)
        if tried is not None and tried.alternatives != waiting.alternatives:
            return True
        start_seconds = self._advice.get(key, _NO_ADVICE).start_seconds
        if start_seconds is None or waiting.estimated_start is None:
            return key in self._advice and (start_seconds is None) is not (waiting.estimated_start is None)
        moved_seconds = abs(start_seconds - to_seconds(waiting.estimated_start))
        left_seconds = start_seconds - self._advised_seconds
        return moved_seconds > max(_SAME_SECONDS, _SAME_RATIO * left_seconds)

    def told(self, key: str, waiting: WaitingStatus, before: WaitingStatus | None) -> WaitingStatus:
        """Return why a job waits, with the advice to it; with what it was told before, where that is still as good.

        Args:
            key: the job.
            waiting: why it waits.
            before: what its status says of that.
        """
        advice, tried = self._advice.get(key), self._tried.get(key)
        ahead = waiting.ahead if advice is None else advice.ahead
        if before is not None and before.advised_at is not None and not self.is_news(key, before):
            kept = {name: getattr(before, name) for name in _ADVICE_FIELDS}
            return waiting.model_copy(update={"ahead": ahead or before.ahead, **kept})
        if advice is None and tried is None:
            return waiting
        start_seconds = None if advice is None else advice.start_seconds
        return waiting.model_copy(
            update={
                "ahead": ahead,
                "estimated_start": None if start_seconds is None else to_text(start_seconds),
                "estimate_basis": "" if advice is None else advice.basis,
                "alternatives": () if tried is None else tried.alternatives,
                "advised_at": to_text(self._advised_seconds if tried is None else tried.at_seconds),
            }
        )

    def _due(self, planned: Plan, first: Iterable[str], now_seconds: float) -> list[str]:
        due = [
            (tried.at_seconds if tried is not None else 0.0, at, key)
            for at, key in enumerate(first)
            if planned.waiting[key].code not in _SELF_EXPLAINING
            and (
                (tried := self._tried.get(key)) is None
                or now_seconds >= tried.at_seconds + self._interval_seconds
            )
        ]
        return [key for _, _, key in sorted(due)[:_TRIED_IN_A_CYCLE]]
