"""Start estimates and suggestions for waiting jobs: who is ahead, when a job may start, which change would start it now.

They affect no decision, and cost more than a small one. So estimates are computed at intervals, for the first jobs in the queue
together. Suggestions are computed for a few jobs per cycle, those with the oldest suggestions first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from laneway.api.job_names import namespace_of, visible_jobs
from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.training_job_status import ModelSpeedStatus, WaitingStatus
from laneway.operator.pacing import FIRST_ESTIMATE_SECONDS, SUGGESTIONS_PER_CYCLE
from laneway.scheduling import Scheduler, StartEstimate, WaitingCode, WaitingReason
from laneway.scheduling.config.operator_config import CycleConfig
from laneway.scheduling.explain.start_estimates import ESTIMATED

_SAME_SECONDS, _SAME_RATIO = 60.0, 0.25
"""An estimate that moved by no more than this (in seconds, or of the time until then) is not written again."""

_SELF_EXPLAINING = frozenset(
    {
        WaitingCode.SUSPENDED,
        WaitingCode.AWAITING_PREEMPTION,
        WaitingCode.AWAITING_RELEASE,
        WaitingCode.NOT_CONSIDERED,
    }
)
"""Reasons that no change of the job would remove."""

_SAME_PERCENT = 5
"""A speed on a GPU model that moved by no more than this is not written again."""

_FIELDS = ("estimated_start", "estimate_basis", "alternatives", "speeds", "estimated_at")
_NO_ESTIMATE = StartEstimate()

Waiting = Mapping[str, WaitingReason]
"""Why jobs wait, by key, in order."""


@dataclass(frozen=True, slots=True)
class _Suggestions:
    at_seconds: float
    changes: tuple[str, ...]


class StartEstimates:
    """The estimates and suggestions that were worked out last."""

    def __init__(self, config: CycleConfig) -> None:
        self._interval_seconds = float(config.estimate_seconds)
        self._estimated_seconds = -self._interval_seconds
        self._estimates: dict[str, StartEstimate] = {}
        self._suggestions: dict[str, _Suggestions] = {}

    def update(self, scheduler: Scheduler, waiting: Waiting, now_seconds: float) -> set[str]:
        """Work out those that are due; return the jobs that have new ones.

        Args:
            scheduler: as its decision left it.
            waiting: why jobs wait by that decision.
            now_seconds: Unix time.
        """
        first, updated = list(islice(waiting, ESTIMATED)), set[str]()
        interval_seconds = self._interval_seconds
        if any(key not in self._estimates for key in first):
            interval_seconds = min(interval_seconds, FIRST_ESTIMATE_SECONDS)
        if not first:
            updated |= self._estimates.keys()
            self._estimates.clear()
        elif now_seconds >= self._estimated_seconds + interval_seconds:
            updated |= self._estimates.keys()
            self._estimates = dict(scheduler.start_estimates(waiting, first, now_seconds))
            updated |= self._estimates.keys()
            self._estimated_seconds = now_seconds
        self._suggestions = {key: known for key, known in self._suggestions.items() if key in waiting}
        for key in self._due(waiting, first, now_seconds):
            self._suggestions[key] = _Suggestions(now_seconds, scheduler.suggestions(key))
            updated.add(key)
        return updated

    def is_news(self, key: str, waiting: WaitingStatus | None) -> bool:
        """Whether a job's estimate or suggestions differ from its status enough to be written."""
        if waiting is None:
            return False
        suggested = self._suggestions.get(key)
        if suggested is not None and suggested.changes != waiting.alternatives:
            return True
        if key in self._estimates and not _same_speeds(_speeds(self._estimates[key]), waiting.speeds):
            return True
        start_seconds = self._estimates.get(key, _NO_ESTIMATE).start_seconds
        if start_seconds is None or waiting.estimated_start is None:
            return key in self._estimates and (start_seconds is None) is not (waiting.estimated_start is None)
        moved_seconds = abs(start_seconds - parse_time(waiting.estimated_start))
        left_seconds = start_seconds - self._estimated_seconds
        return moved_seconds > max(_SAME_SECONDS, _SAME_RATIO * left_seconds)

    def added(self, key: str, waiting: WaitingStatus, before: WaitingStatus | None) -> WaitingStatus:
        """Return why a job waits, with its estimate and suggestions; those that its status has stay where they are as good.

        Args:
            key: the job.
            waiting: why it waits.
            before: what its status says of that.
        """
        estimate, suggested = self._estimates.get(key), self._suggestions.get(key)
        ahead, elsewhere = visible_jobs(() if estimate is None else estimate.ahead, namespace_of(key))
        if before is not None and before.estimated_at is not None and not self.is_news(key, before):
            kept = {name: getattr(before, name) for name in _FIELDS}
            if estimate is None:
                ahead, unnamed = visible_jobs(before.ahead, namespace_of(key))  # an earlier version named all
                elsewhere = unnamed + before.ahead_elsewhere
            return waiting.model_copy(update={"ahead": ahead, "ahead_elsewhere": elsewhere, **kept})
        if estimate is None and suggested is None:
            return waiting
        start_seconds = None if estimate is None else estimate.start_seconds
        return waiting.model_copy(
            update={
                "ahead": ahead,
                "ahead_elsewhere": elsewhere,
                "estimated_start": None if start_seconds is None else format_time(start_seconds),
                "estimate_basis": "" if estimate is None else estimate.basis,
                "alternatives": () if suggested is None else suggested.changes,
                "speeds": () if estimate is None else _speeds(estimate),
                "estimated_at": format_time(
                    self._estimated_seconds if suggested is None else suggested.at_seconds
                ),
            }
        )

    def _due(self, waiting: Waiting, first: Iterable[str], now_seconds: float) -> list[str]:
        due = [
            (known.at_seconds if known is not None else 0.0, at, key)
            for at, key in enumerate(first)
            if waiting[key].code not in _SELF_EXPLAINING
            and (
                (known := self._suggestions.get(key)) is None
                or now_seconds >= known.at_seconds + self._interval_seconds
            )
        ]
        return [key for _, _, key in sorted(due)[:SUGGESTIONS_PER_CYCLE]]


def _speeds(estimate: StartEstimate) -> tuple[ModelSpeedStatus, ...]:
    fastest = max((each.per_second for each in estimate.speeds), default=1.0)
    return tuple(
        ModelSpeedStatus(
            model=each.model,
            percent=round(100 * each.per_second / fastest),
            basis=each.basis.value,
            source=each.source,
        )
        for each in estimate.speeds
    )


def _same_speeds(now: Sequence[ModelSpeedStatus], written: Sequence[ModelSpeedStatus]) -> bool:
    return len(now) == len(written) and all(
        (one.model, one.basis) == (other.model, other.basis)
        and abs(one.percent - other.percent) <= _SAME_PERCENT
        for one, other in zip(now, written, strict=True)
    )
