"""What follows from attempts that did not start or did not last: back-off, nodes to avoid, and no preemptions for a refused gang.

It is what the operator does (``laneway.operator.lifecycle``), with the same timeouts and the same formulas.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from laneway.scheduling.config.operator_config import TimeoutsConfig
from laneway.scheduling.model.retries import (
    FAILURES_IN_A_ROW_SECONDS,
    avoided_seconds,
    backoff_seconds,
    refusal_pause_seconds,
)


@dataclass(slots=True)
class _Refusal:
    """The last refusal by kube-scheduler."""

    times: int
    nodes: frozenset[str]
    """Empty: something there has changed."""

    until_seconds: float
    lifted: bool = False


@dataclass(slots=True)
class _Past:
    """What the operator remembers of a job's attempts."""

    unstarted: int = 0
    """Attempts in a row that ended before all workers ran."""

    failures: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By node: how often workers failed there in a row, and when lastly."""

    avoided: dict[str, float] = field(default_factory=dict)
    """By node: until when."""

    backs_off_until_seconds: float = 0.0
    refusal: _Refusal | None = None


class Attempts:
    """The past attempts of all jobs. Every method that notes something returns the moments at which the job is to be looked at again."""

    def __init__(self, timeouts: TimeoutsConfig) -> None:
        self._timeouts = timeouts
        self._past: dict[str, _Past] = {}

    def backs_off(self, key: str, now_seconds: float) -> bool:
        """Return whether a job may not start yet."""
        past = self._past.get(key)
        return past is not None and now_seconds < past.backs_off_until_seconds

    def preempts(self, key: str) -> bool:
        """Return whether other jobs may be preempted for a job."""
        past = self._past.get(key)
        return past is None or past.refusal is None or past.refusal.lifted

    def avoided(self, key: str, now_seconds: float) -> frozenset[str]:
        """Return the nodes that a job avoids because of its attempts."""
        past = self._past.get(key)
        if past is None:
            return frozenset()
        return frozenset(node for node, until in past.avoided.items() if now_seconds < until)

    def ran(self, key: str) -> None:
        """Note that all workers of a job run."""
        if key in self._past:
            self._past[key].unstarted = 0
            self._past[key].refusal = None

    def not_started(
        self, key: str, now_seconds: float, avoid: Collection[str], *, refused: bool
    ) -> list[float]:
        """Note that an attempt was rolled back, or lost before all of its workers ran.

        Args:
            key: the job.
            now_seconds: the moment.
            avoid: nodes to keep away from for a while.
            refused: whether kube-scheduler refused workers there.
        """
        past = self._past.setdefault(key, _Past())
        past.unstarted += 1
        if refused:
            times = 1 if past.refusal is None else past.refusal.times + 1
            until_seconds = now_seconds + refusal_pause_seconds(times)
            past.refusal = _Refusal(times, frozenset(avoid), until_seconds)
        if past.unstarted > 1:
            backoff = backoff_seconds(self._timeouts.restart_backoff_seconds, past.unstarted - 1)
            past.backs_off_until_seconds = now_seconds + backoff
        return self._avoid(past, avoid, now_seconds + self._timeouts.avoid_node_seconds, now_seconds)

    def disrupted(self, key: str, now_seconds: float, avoid: Collection[str]) -> list[float]:
        """Note that the cluster took a running worker away."""
        past = self._past.setdefault(key, _Past())
        return self._avoid(past, avoid, now_seconds + self._timeouts.avoid_node_seconds, now_seconds)

    def failed(self, key: str, now_seconds: float, node: str) -> list[float]:
        """Note that a worker failed on a node."""
        past = self._past.setdefault(key, _Past())
        past.failures = {
            each: (times, last)
            for each, (times, last) in past.failures.items()
            if now_seconds - last <= FAILURES_IN_A_ROW_SECONDS
        }
        times = past.failures.get(node, (0, 0.0))[0] + 1
        past.failures[node] = (times, now_seconds)
        in_a_row = sum(times for times, _ in past.failures.values())
        backoff = backoff_seconds(self._timeouts.restart_backoff_seconds, in_a_row)
        past.backs_off_until_seconds = now_seconds + backoff
        seconds = avoided_seconds(self._timeouts.avoid_node_seconds, times, self._timeouts.node_failures)
        return self._avoid(past, [node] if seconds else [], now_seconds + seconds, now_seconds)

    def freed(self, nodes: Collection[str], now_seconds: float) -> dict[str, float]:
        """Note that pods left nodes; return the jobs to be looked at, each with the moment: their refusal may be lifted."""
        looked_at: dict[str, float] = {}
        for key, past in self._past.items() if nodes else ():
            refusal = past.refusal
            if refusal is not None and not refusal.nodes.isdisjoint(nodes):
                refusal.nodes = frozenset()
                looked_at[key] = max(now_seconds, refusal.until_seconds)
        return looked_at

    def review(self, key: str, now_seconds: float) -> None:
        """Lift a job's refusal, if something has changed since and its time is over."""
        past = self._past.get(key)
        if past is not None and past.refusal is not None and not past.refusal.nodes:
            past.refusal.lifted |= now_seconds >= past.refusal.until_seconds

    @staticmethod
    def _avoid(past: _Past, nodes: Collection[str], until_seconds: float, now_seconds: float) -> list[float]:
        past.avoided = {node: until for node, until in past.avoided.items() if until > now_seconds}
        past.avoided |= dict.fromkeys(nodes, until_seconds)
        due = [until_seconds] if nodes else []
        return due + [past.backs_off_until_seconds] * (past.backs_off_until_seconds > now_seconds)
