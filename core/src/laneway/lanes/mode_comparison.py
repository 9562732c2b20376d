"""Compares what tenants do in turns with what they do in parallel.

Tenants that leave a part of the device unused at each moment do more in parallel. Tenants that fill it for a part of their time
do more in turns: one computes while the others load data, and their iterations keep this order. In parallel, iterations that
began together slow one another, end together and begin together again.

Work is iterations times the time that an iteration takes alone, per second. In turns it is at most 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from laneway.lanes.tenant_use import TenantUse

_KEPT_SECONDS = 60.0
"""Work of the past counts as much as an average over this time, so that a change shows."""


@dataclass(slots=True)
class _Mode:
    """What was done in one of the two modes."""

    seconds: float = 0.0
    iterations: dict[str, float] = field(default_factory=dict)

    def add(self, iterations: Mapping[str, int], seconds: float) -> None:
        kept = _KEPT_SECONDS / max(_KEPT_SECONDS, self.seconds + seconds)
        self.seconds = kept * (self.seconds + seconds)
        self.iterations = {
            key: kept * (self.iterations.get(key, 0.0) + count) for key, count in iterations.items()
        }


@dataclass(slots=True)
class ModeComparison:
    """The work of all tenants per second, in turns and in parallel. It reads no clock.

    A phase counts from the moment when each tenant has ended the iteration that it began before.
    """

    least_iterations: int
    """Each tenant's in a mode, before its work there is known."""

    least_seconds: float
    """In a mode, before the work there is known."""

    _modes: dict[bool, _Mode] = field(default_factory=lambda: {True: _Mode(), False: _Mode()})
    """By whether the lanes take turns."""

    _serial: bool | None = None
    """The present mode; None: neither, as in an overlap."""

    _first: dict[str, int] = field(default_factory=dict)
    """Each tenant's iterations when the phase began."""

    _counted: dict[str, int] | None = None
    """Each tenant's iterations that are counted already; None until each has ended one in this phase."""

    _counted_seconds: float = 0.0
    """Until when they are counted."""

    def observe(self, active: Sequence[TenantUse], serial: bool | None, now_seconds: float) -> None:
        """Count the iterations since the last call.

        Args:
            active: the tenants that want the device.
            serial: whether their lanes took turns since then; None: neither that nor all in parallel.
            now_seconds: the current time.
        """
        iterations = {use.key: use.iterations for use in active}
        same = iterations.keys() == self._first.keys()
        if not same:
            self._modes = {True: _Mode(), False: _Mode()}
        last = self._first if self._counted is None else self._counted
        if not same or serial is not self._serial or any(iterations[key] < last[key] for key in last):
            self._serial, self._first, self._counted = serial, iterations, None
        elif self._counted is not None and serial is not None:
            counted = self._counted
            self._modes[serial].add(
                {key: count - counted[key] for key, count in iterations.items()},
                now_seconds - self._counted_seconds,
            )
            self._counted, self._counted_seconds = iterations, now_seconds
        elif all(count > self._first[key] for key, count in iterations.items()):
            self._counted, self._counted_seconds = iterations, now_seconds

    def forget(self, serial: bool) -> None:
        """Have the work of a mode measured again."""
        self._modes[serial] = _Mode()

    def work(self, serial: bool, alone_seconds: Mapping[str, float | None]) -> float | None:
        """Return the work per second in turns or in parallel; None if it is not known.

        Args:
            serial: whether in turns.
            alone_seconds: the time of an iteration alone, by tenant; None if it is not known.
        """
        mode, work = self._modes[serial], 0.0
        if mode.seconds < self.least_seconds:
            return None
        for key, iterations in mode.iterations.items():
            of_iteration = alone_seconds.get(key)
            if of_iteration is None or iterations < self.least_iterations:
                return None
            work += iterations * of_iteration
        return work / mode.seconds

    def least_ratio(self) -> float:
        """Return what the tenant that loses most in turns does there, as a part of what it does in parallel."""
        in_turns, in_parallel = self._modes[True], self._modes[False]
        ratios = (
            iterations * in_parallel.seconds / (in_turns.seconds * in_parallel.iterations[key])
            for key, iterations in in_turns.iterations.items()
            if in_parallel.iterations.get(key)
        )
        return min(ratios, default=1.0)
