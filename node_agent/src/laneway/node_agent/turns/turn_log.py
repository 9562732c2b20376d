"""The record of turns: the last ones, and how long turns and waiting took, for people and Prometheus."""

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
    """One turn, as ``/turns`` shows it. Times are CLOCK_REALTIME; an open turn has no end."""

    gpu: str
    lane: int
    turn: int
    session: str
    namespace: str
    pod: str
    job: str | None
    start_seconds: float
    end_seconds: float | None
    iterations: int
    gpu_seconds: float
    end: str | None


Entry = tuple[int, int, str, str, str, str | None, float, float | None, int, float, str | None]
"""A record without its GPU, in the order of the fields: a bare tuple of numbers and texts, because every hand-off writes one and few
are ever read, and because the garbage collector leaves such tuples alone."""


class Histogram:
    """Counts of durations, as Prometheus wants them."""

    __slots__ = ("counts", "sum_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_SECONDS) + 1)
        self.sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(BUCKETS_SECONDS, seconds)] += 1
        self.sum_seconds += seconds


class TurnLog:
    """What happened on one GPU. Bounded: the oldest turns are forgotten."""

    def __init__(self, gpu: str, realtime: SteadyRealtime, most_turns: int = 32_768) -> None:
        self.gpu = gpu
        self._realtime = realtime
        self._ended: deque[Entry] = deque(maxlen=most_turns)
        self.durations = Histogram()
        self.waits = Histogram()
        self.revoked: Counter[str] = Counter()

    @property
    def turns(self) -> tuple[TurnRecord, ...]:
        """Return the turns that are over, the oldest first."""
        return tuple(self.records(self.entries()))

    def entries(self) -> tuple[Entry, ...]:
        """Return them as they are kept, which is quick; any thread may make records of them."""
        return tuple(self._ended)

    def records(self, entries: Iterable[Entry]) -> Iterator[TurnRecord]:
        """Return the records of entries."""
        return (TurnRecord(self.gpu, *entry) for entry in entries)

    def began(self, turn: Turn) -> None:
        """Count how long a turn was waited for."""
        self.waits.observe(turn.waited_seconds)

    def ended(self, turn: Turn, end: TurnEnd, reason: str, now_seconds: float) -> None:
        """Remember a turn that is over."""
        self.durations.observe(now_seconds - turn.began_seconds)
        if end is TurnEnd.REVOKED:
            self.revoked[reason] += 1
        end_seconds = self._realtime.at(now_seconds)
        self._ended.append(self._entry(turn, end_seconds, turn.iterations, turn.gpu_seconds, end.value))

    def running(self, turn: Turn, now_seconds: float) -> TurnRecord:
        """Return the record of a turn that still runs."""
        iterations = turn.iterations + sum(
            session.page.iterations - session.granted_iterations for session in turn.holders
        )
        return TurnRecord(
            self.gpu, *self._entry(turn, None, iterations, turn.busy_seconds(now_seconds), None)
        )

    def _entry(
        self, turn: Turn, end_seconds: float | None, iterations: int, gpu_seconds: float, end: str | None
    ) -> Entry:
        of = turn.hold.record
        start_seconds = self._realtime.at(turn.began_seconds)
        return (
            turn.lane,
            turn.number,
            of.key,
            of.namespace,
            of.pod,
            of.job,
            start_seconds,
            end_seconds,
            iterations,
            gpu_seconds,
            end,
        )
