"""The log of turns: the latest ones, and histograms of durations and waits."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from laneway.node_agent.clock import SteadyRealtime
from laneway.node_agent.turns.turn import Turn, TurnEnd

BUCKETS_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One turn, as ``/turns`` shows it. Times are CLOCK_REALTIME; a turn in progress has no end."""

    gpu: str
    lane: int
    turn: int
    session: str
    namespace: str
    pod: str
    job: str | None
    waited_seconds: float
    """From the request until the start."""
    start_seconds: float
    end_seconds: float | None
    iterations: int
    gpu_seconds: float
    end: str | None


Entry = tuple[int, int, str, str, str, str | None, float, float, float | None, int, float, str | None]
"""A record without its GPU, as a plain tuple in field order. Every hand-off writes one and few are ever
read. The garbage collector does not track such tuples."""


class Histogram:
    """Counts of durations in Prometheus buckets."""

    __slots__ = ("counts", "sum_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_SECONDS) + 1)
        self.sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BUCKETS_SECONDS, seconds)] += 1
        self.sum_seconds += seconds


class TurnLog:
    """The turns of one GPU. Bounded: the oldest turns are dropped."""

    def __init__(self, gpu: str, realtime: SteadyRealtime, max_turns: int = 32_768) -> None:
        self.gpu = gpu
        self._realtime = realtime
        self._ended: deque[Entry] = deque(maxlen=max_turns)
        self.durations = Histogram()
        self.waits = Histogram()
        self.revoked: Counter[str] = Counter()

    @property
    def turns(self) -> tuple[TurnRecord, ...]:
        """Return the ended turns, the oldest first."""
        return tuple(self.records(self.entries()))

    def entries(self) -> tuple[Entry, ...]:
        """Return the ended turns as stored, which is quick. Any thread may turn them into records."""
        return tuple(self._ended)

    def records(self, entries: Iterable[Entry]) -> Iterator[TurnRecord]:
        """Return the records of entries."""
        return (TurnRecord(self.gpu, *entry) for entry in entries)

    def began(self, turn: Turn) -> None:
        """Count how long a turn was waited for."""
        self.waits.observe(turn.waited_seconds)

    def ended(self, turn: Turn, end: TurnEnd, reason: str, now_seconds: float) -> None:
        """Append a turn that has ended."""
        self.durations.observe(now_seconds - turn.began_seconds)
        if end is TurnEnd.REVOKED:
            self.revoked[reason] += 1
        end_seconds = self._realtime.at(now_seconds)
        self._ended.append(self._entry(turn, end_seconds, turn.iterations, turn.gpu_seconds, str(end)))

    def running(self, turn: Turn, now_seconds: float) -> TurnRecord:
        """Return the record of a turn in progress."""
        iterations = turn.iterations + sum(
            session.page.iterations - session.granted_iterations for session in turn.holders
        )
        return TurnRecord(
            self.gpu, *self._entry(turn, None, iterations, turn.busy_seconds(now_seconds), None)
        )

    def _entry(
        self, turn: Turn, end_seconds: float | None, iterations: int, gpu_seconds: float, end: str | None
    ) -> Entry:
        of = turn.lease.record
        start_seconds = self._realtime.at(turn.began_seconds)
        return (
            turn.lane,
            turn.number,
            of.key,
            of.namespace,
            of.pod,
            of.job,
            turn.waited_seconds,
            start_seconds,
            end_seconds,
            iterations,
            gpu_seconds,
            end,
        )
