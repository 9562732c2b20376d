"""The measured training of a job: its speed is known with any number of workers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from laneway.scheduling import WorkerPlacement
from laneway.simulator.application import Application

_ROUNDING = 1e-9
"""Of all progress: the work done is a sum of floats, and may miss the end of an epoch by less than this."""


@dataclass(frozen=True)
class Training:
    """An application, with the batch size and the workers of the trace.

    The work of the trace (``TraceJob.duration_seconds``) is the time of the whole training with those workers on the fewest nodes.
    """

    application: Application
    batch: int
    workers: int
    workers_per_node: int = 4
    """GPUs per node when the application was measured."""

    @cached_property
    def duration_seconds(self) -> float:
        """The undisturbed duration."""
        full, rest = divmod(self.workers, self.workers_per_node)
        placement = (self.workers_per_node,) * full + ((rest,) if rest else ())
        app = self.application
        local_batch, passes = app.batch_of(self.workers, self.batch)
        return math.fsum(
            (app.progress_after(epoch + 1) - app.progress_after(epoch))
            / app.speed(placement, local_batch, passes, epoch)
            for epoch in range(app.epochs)
        )

    def epoch(self, progress_seconds: float) -> int:
        """Return the epoch, from 0, of a job after an amount of the trace's work."""
        progress = (progress_seconds / self.duration_seconds + _ROUNDING) * self.application.total_progress
        return min(self.application.epoch_of(progress), self.application.epochs - 1)

    def epoch_ends_seconds(self, epoch: int) -> float:
        """Return the work done at the end of an epoch; after the last, exactly all of it."""
        if epoch == self.application.epochs - 1:
            return self.duration_seconds
        return self.application.progress_after(epoch + 1) * self._seconds_each

    def speed_ratio(self, placement: Sequence[int], local_batch: int, passes: int, epoch: int) -> float:
        """Return seconds of the trace's work per second."""
        return self.application.speed(placement, local_batch, passes, epoch) * self._seconds_each

    @property
    def _seconds_each(self) -> float:
        return self.duration_seconds / self.application.total_progress


def replicas_by_node(placement: Sequence[WorkerPlacement]) -> tuple[int, ...]:
    """Return the number of workers on each node, ordered by the nodes' names."""
    counted = Counter(worker.node for worker in placement)
    return tuple(counted[node] for node in sorted(counted))
