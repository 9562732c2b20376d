"""Averages over equal parts of the time: a long history makes no larger a plot than a short one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Buckets:
    """Equal parts of a time span."""

    from_seconds: float
    to_seconds: float
    count: int

    @property
    def width_seconds(self) -> float:
        """Return the length of each."""
        return (self.to_seconds - self.from_seconds) / self.count

    def edges(self) -> list[float]:
        """Return the start of each, and the end of the last."""
        return [self.from_seconds + self.width_seconds * number for number in range(self.count + 1)]

    def parts(self, from_seconds: float, to_seconds: float) -> Iterable[tuple[int, float]]:
        """Yield each bucket that a span touches, with the fraction of the bucket that it covers."""
        width = self.width_seconds
        if width <= 0 or to_seconds <= from_seconds:
            return
        first = max(0, int((from_seconds - self.from_seconds) / width))
        last = min(self.count - 1, int((to_seconds - self.from_seconds) / width))
        for number in range(first, last + 1):
            begin = self.from_seconds + number * width
            covered = min(to_seconds, begin + width) - max(from_seconds, begin)
            if covered > 0:
                yield number, covered / width

    def averages(self, steps: Sequence[tuple[float, float]]) -> list[float]:
        """Return the mean per bucket of a step function: each value holds until the next one, the last until the end."""
        means = [0.0] * self.count
        for (begin, value), (end, _) in zip(steps, [*steps[1:], (self.to_seconds, 0.0)], strict=True):
            if value:
                for number, part in self.parts(begin, end):
                    means[number] += value * part
        return means
