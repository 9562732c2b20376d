"""How often statuses are written of which only figures and sentences are new: position, service, measured bytes.

Steps in the life of a job are written at once. For the rest there is an allowance, so many a second, which is saved up for a while: with a
few jobs all are told within seconds, with thousands the API server is not kept busy by it. Those that were written longest ago come first.
What only has more service, which anybody can reckon from its status, has a smaller allowance of its own. While many jobs start at the same
time, the API server is left to them: such a write takes as much of it as the creation of two pods.
"""

from __future__ import annotations

from laneway.api.clock_text import to_seconds
from laneway.api.training_job import TrainingJobStatus
from laneway.operator.config import CycleConfig

_SERVICE_PER_SECOND = 2.0
_SERVICE_AT_ONCE = 100.0

_MANY_STARTS = 32
_WHILE_MANY_START = 0.1
"""Of the allowance for sentences, so much is left while more jobs than that start; nothing of the one for service."""


class Allowance:
    """So many a second, saved up to so many."""

    def __init__(self, per_second: float, most: float) -> None:
        self._per_second = per_second
        self._most = most
        self._left = most
        self._counted_seconds: float | None = None

    def take(self, wanted: int, now_seconds: float) -> int:
        """Return how many of so many may be written now, and count these."""
        if self._counted_seconds is not None:
            gained = max(0.0, now_seconds - self._counted_seconds) * self._per_second
            self._left = min(self._most, self._left + gained)
        self._counted_seconds = now_seconds
        taken = min(wanted, int(self._left))
        self._left -= taken
        return taken


class WriteBudget:
    """The allowances."""

    def __init__(self, config: CycleConfig) -> None:
        self._config = config
        per_second = float(config.explanations_per_second)
        self._sentences = _saved_up(per_second, config)
        self._while_many_start = _saved_up(per_second * _WHILE_MANY_START, config)
        self._service = Allowance(_SERVICE_PER_SECOND, _SERVICE_AT_ONCE)

    def sentences(self, wanted: int, starting: int, now_seconds: float) -> int:
        """Return how many statuses may be written now of which sentences are new, and count these.

        Args:
            wanted: how many there are.
            starting: of how many jobs that start something is being written.
            now_seconds: Unix time.
        """
        allowance = self._sentences if starting <= _MANY_STARTS else self._while_many_start
        return allowance.take(wanted, now_seconds)

    def service(self, wanted: int, starting: int, now_seconds: float) -> int:
        """Return how many statuses may be written now of which only the service is new, and count these."""
        return self._service.take(wanted, now_seconds) if starting <= _MANY_STARTS else 0

    def due_seconds(self, status: TrainingJobStatus, written_seconds: float, *, same: bool) -> float | None:
        """Return from when on a status may be written; None where nothing is new.

        Args:
            status: as it is to be.
            written_seconds: when it was written last.
            same: whether the cluster has it so.
        """
        if not same:
            return written_seconds + self._config.explain_seconds
        if status.service_counted_at is None:
            return None
        return max(written_seconds, to_seconds(status.service_counted_at)) + self._config.service_seconds


def _saved_up(per_second: float, config: CycleConfig) -> Allowance:
    return Allowance(per_second, max(1.0, per_second * config.explain_seconds))
