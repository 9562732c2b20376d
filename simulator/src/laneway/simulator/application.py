"""An application whose training was measured: its speed by placement, batch size and progress.

Between measurements, values are interpolated linearly, as Pollux' own simulator does (OSDI'21, section 5.3; petuum/adaptdl,
branch ``osdi21-artifact``, ``simulator/applications.py``). Progress is in steps at the initial batch size.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from laneway.scheduling.model.goodput import BatchLimits

MEASURED_NODES = 16
"""The most nodes in the curves; placements on more nodes count as just as fast."""


class StepTime(NamedTuple):
    """The duration of a step of one pass."""

    step_seconds: float
    network_seconds: float
    """The part of it for averaging gradients."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch of a validation curve."""

    progress: float
    """At the epoch's end."""

    grad_sqr: float
    grad_var: float


class Application:
    """One application's curves. Pure, except for caches of its own results."""

    def __init__(
        self,
        name: str,
        steps: Mapping[tuple[int, ...], Sequence[tuple[int, StepTime]]],
        scaling: Sequence[tuple[int, int, int, StepTime]],
        validation: Mapping[int, Sequence[Epoch]],
        max_local_batch: int | None = None,
    ) -> None:
        """Take the curves of the files.

        Args:
            name: the application.
            steps: by placement (replicas by node): local batch sizes, ascending, each with its step time.
            scaling: nodes, replicas, local batch and step time of placements beyond those.
            validation: by batch size: the epochs.
            max_local_batch: the largest batch of a replica in one pass; None: the largest measured one.
        """
        self.name = name
        self._steps = {placement: list(points) for placement, points in steps.items()}
        self._scaling = list(scaling)
        self._validation = {batch: list(validation[batch]) for batch in sorted(validation)}
        self._batches = list(self._validation)
        self.epochs = min(len(epochs) for epochs in self._validation.values())
        local = sorted({batch for points in self._steps.values() for batch, _ in points})
        self.initial_batch = self._batches[0]
        self.limits = BatchLimits(self._batches[-1], max_local_batch or local[-1], local[0])
        self._progress = [
            min(epochs[number].progress for epochs in self._validation.values())
            for number in range(self.epochs)
        ]
        self._times: dict[tuple[tuple[int, ...], int], StepTime] = {}
        self._surface: Surface | None = None

    def progress_after(self, epoch: int) -> float:
        """Return the progress after a number of epochs; 0 for 0."""
        return self._progress[epoch - 1] if epoch else 0.0

    def batch_of(self, replicas: int, batch: int) -> tuple[int, int]:
        """Return the local batch and the accumulated passes for a batch size, or for slightly more."""
        each = max(math.ceil(batch / replicas), self.limits.min_local_batch)
        accumulated_passes = math.ceil(each / self.limits.max_local_batch) - 1
        if replicas == 1 and batch > self.initial_batch:
            accumulated_passes = max(1, accumulated_passes)
        local_batch = math.ceil(each / (accumulated_passes + 1))
        return self.within_limits(replicas, local_batch, accumulated_passes), accumulated_passes

    def within_limits(self, replicas: int, local_batch: int, accumulated_passes: int) -> int:
        """Return the local batch, limited so that all replicas and passes stay within the largest batch size."""
        return min(local_batch, self.limits.max_batch // (replicas * (accumulated_passes + 1)))

    @property
    def total_progress(self) -> float:
        """The progress at which the job is done."""
        return self._progress[-1]

    def epoch_of(self, progress: float) -> int:
        """Return the number of complete epochs at a progress."""
        return bisect_right(self._progress, progress)

    def gradients(self, batch: int, epoch: int) -> tuple[float, float]:
        """Return squared norm and variance of the gradient during an epoch (from 0) at a batch size."""
        upper = bisect_left(self._batches, batch)
        if upper == len(self._batches) or batch < self._batches[0]:
            raise ValueError(
                f"batch size {batch} of {self.name} was not measured: write {self._batches[0]} to {self._batches[-1]}"
            )
        above = self._validation[self._batches[upper]][epoch]
        if self._batches[upper] == batch:
            return above.grad_sqr, above.grad_var
        below = self._validation[self._batches[upper - 1]][epoch]
        part = (batch - self._batches[upper - 1]) / (self._batches[upper] - self._batches[upper - 1])
        return (
            (1 - part) * below.grad_sqr + part * above.grad_sqr,
            (1 - part) * below.grad_var + part * above.grad_var,
        )

    def step_time(self, placement: Sequence[int], local_batch: int) -> StepTime:
        """Return the time of a step of one pass with these replicas on each node (in any rotation)."""
        rotations = [tuple(placement[start:]) + tuple(placement[:start]) for start in range(len(placement))]
        key = (min(rotations), local_batch)
        if key not in self._times:
            measured = self._steps.get(key[0])
            self._times[key] = self._between(measured, local_batch) if measured else self._beyond(*key)
        return self._times[key]

    def speed(self, placement: Sequence[int], local_batch: int, accumulated_passes: int, epoch: int) -> float:
        """Return progress per second during an epoch."""
        time = self.step_time(placement, local_batch)
        batch = sum(placement) * local_batch * (accumulated_passes + 1)
        grad_sqr, grad_var = self.gradients(batch, epoch)
        gain = (grad_var + grad_sqr) / (grad_var * self.initial_batch / batch + grad_sqr)
        pass_seconds = time.step_seconds - time.network_seconds
        return gain / (time.step_seconds + accumulated_passes * pass_seconds)

    def _between(self, points: Sequence[tuple[int, StepTime]], local_batch: int) -> StepTime:
        batches = [batch for batch, _ in points]
        upper = bisect_left(batches, local_batch)
        if upper == len(points) or local_batch < batches[0]:
            raise ValueError(
                f"a local batch of {local_batch} of {self.name} was not measured: write {batches[0]} to {batches[-1]}"
            )
        if batches[upper] == local_batch:
            return points[upper][1]
        part = (local_batch - batches[upper - 1]) / (batches[upper] - batches[upper - 1])
        below, above = points[upper - 1][1], points[upper][1]
        return StepTime(*((1 - part) * low + part * high for low, high in zip(below, above, strict=True)))

    def _beyond(self, placement: tuple[int, ...], local_batch: int) -> StepTime:
        if self._surface is None:
            self._surface = Surface(self._steps, self._scaling)
        found = self._surface.at(min(len(placement), MEASURED_NODES), sum(placement), local_batch)
        if found is None:
            raise ValueError(
                f"{self.name} was not measured with {sum(placement)} replicas on {len(placement)} nodes "
                f"and a local batch of {local_batch}"
            )
        return found


class Surface:
    """Step times over (nodes, replicas, local batch), linear in the simplices between the measured points."""

    def __init__(
        self,
        steps: Mapping[tuple[int, ...], Sequence[tuple[int, StepTime]]],
        scaling: Sequence[tuple[int, int, int, StepTime]],
    ) -> None:
        """Take the points: the means over placements with equal numbers, then those beyond."""
        from scipy.interpolate import LinearNDInterpolator

        alike: dict[tuple[int, int, int], list[StepTime]] = {}
        for placement, points in steps.items():
            for batch, time in points:
                alike.setdefault((len(placement), sum(placement), batch), []).append(time)
        where = [*sorted(alike), *((nodes, replicas, batch) for nodes, replicas, batch, _ in scaling)]
        means = [[sum(part) / len(part) for part in zip(*alike[key], strict=True)] for key in sorted(alike)]
        self._interpolate = LinearNDInterpolator(where, [*means, *(list(point[3]) for point in scaling)])

    def at(self, nodes: int, replicas: int, local_batch: int) -> StepTime | None:
        """Return the step time; None outside of the measured points."""
        step_seconds, network_seconds = (
            float(value) for value in self._interpolate([nodes, replicas, local_batch])[0]
        )
        return None if math.isnan(step_seconds) else StepTime(step_seconds, network_seconds)
