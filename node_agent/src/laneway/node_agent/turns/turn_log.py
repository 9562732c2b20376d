"""The record of turns: the last ones, and how long turns and waiting took, for people and Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
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
        self.turns: deque[TurnRecord] = deque(maxlen=most_turns)
        self.durations = Histogram()
        self.waits = Histogram()
        self.revoked: Counter[str] = Counter()

    def began(self, turn: Turn) -> None:
        """Count how long a turn was waited for."""
        self.waits.observe(turn.waited_seconds)

    def ended(self, turn: Turn, end: TurnEnd, reason: str, now_seconds: float) -> None:
        """Remember a turn that is over."""
        self.durations.observe(now_seconds - turn.began_seconds)
        if end is TurnEnd.REVOKED:
            self.revoked[reason] += 1
        self.turns.append(self._record(turn, now_seconds, end, turn.iterations, turn.gpu_seconds))

    def running(self, turn: Turn, now_seconds: float) -> TurnRecord:
        """Return the record of a turn that still runs."""
        iterations = turn.iterations + sum(
            session.page.iterations - session.granted_iterations for session in turn.holders
        )
        return self._record(turn, None, None, iterations, turn.busy_seconds(now_seconds))

    def _record(
        self, turn: Turn, end_seconds: float | None, end: TurnEnd | None, iterations: int, gpu_seconds: float
    ) -> TurnRecord:
        of = turn.hold.record
        return TurnRecord(
            gpu=self.gpu,
            lane=turn.lane,
            turn=turn.number,
            session=of.key,
            namespace=of.namespace,
            pod=of.pod,
            job=of.job,
            start_seconds=self._realtime.at(turn.began_seconds),
            end_seconds=None if end_seconds is None else self._realtime.at(end_seconds),
            iterations=iterations,
            gpu_seconds=gpu_seconds,
            end=None if end is None else end.value,
        )
