"""Measurements of the iterations, and when they are sent to the agent.

*Persistent* memory is the most held at a boundary, when another job of the lane may run. *Ephemeral* memory
is what an iteration needs on top of it at its peak (Salus, MLSys'20, section 3.3). Both are maxima over
recent iterations: a job that evaluates a larger batch once an epoch will need that memory again.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Optional

FIRST_REPORT_ITERATIONS: Final = 3
WINDOW_ITERATIONS: Final = 16
REMEMBERED_WINDOWS: Final = 32
"""Memory maxima cover this many windows: some 500 iterations."""
CHANGE_PERCENT: Final = 5
TIME_REPORT_SECONDS: Final = 5.0
"""A change of the iteration time alone is reported at most this often, because it varies with the neighbours'
load."""


@dataclass(frozen=True)
class Profile:
    """The fields of the message `profile`."""

    persistent_bytes: int
    ephemeral_bytes: int
    framework_bytes: int
    iteration_seconds: float
    iterations: int
    largest_tensor_bytes: int
    model_bytes: int
    iteration_seconds_spread: float = 0.0
    """Standard deviation of the iteration's time."""
    remaining_seconds: Optional[float] = None
    """How much longer the job would run alone; None: the script has not announced its number of iterations."""
    data_seconds: float = 0.0
    """Mean time between iterations, without waits for a turn; the longest of a window is left out (an
    evaluation, say)."""

    def fields(self) -> dict[str, Any]:
        """Returns the message's fields."""
        return asdict(self)


class Profiler:
    """Collects the figures of each iteration, and decides when a report is due."""

    def __init__(self) -> None:
        self.reported: Optional[Profile] = None
        self.model_bytes = 0
        self.largest_tensor_bytes = 0
        self._iterations = 0
        """The process's count of iterations when last seen. A meter that samples leaves most iterations
        unmeasured."""
        self._observed = 0
        """How many of them were measured."""
        self._evaluations = 0
        self._windows: deque[tuple[int, int]] = deque(maxlen=REMEMBERED_WINDOWS)
        self._reported_ns = 0
        self._highest_reported = 0
        self._held = self._highest = 0
        self._spent_ns = self._timed = self._in_window = 0
        self._squares_ns2 = 0
        self._data_ns = self._longest_data_ns = 0
        self._ends_at: Optional[int] = None
        self._reported_ends_at: Optional[int] = None

    def expect(self, count: int, iterations: int) -> None:
        """Records that the script will run `count` more iterations after the first `iterations`."""
        self._ends_at = iterations + count

    def repeat(self, iterations: int) -> Optional[Profile]:
        """Returns the last report, for a new agent, with the remaining time after `iterations` iterations."""
        self._iterations = iterations
        if self.reported is not None:
            self.reported = replace(
                self.reported, remaining_seconds=self._remaining_seconds(self.reported.iteration_seconds)
            )
        return self.reported

    def observe(
        self,
        held_bytes: int,
        highest_bytes: int,
        spent_ns: int,
        now_ns: int,
        trained: bool,
        iterations: int,
        data_ns: int = 0,
    ) -> Optional[Profile]:
        """Records a measured iteration; returns the report if one is due.

        Args:
            held_bytes: held at its end.
            highest_bytes: the most held since it began.
            spent_ns: how long it took.
            now_ns: monotonic time.
            trained: False for an evaluation, which counts for memory but not for time.
            iterations: how many the process has trained, including those not measured.
            data_ns: the time since the iteration before, without waits for the turn.
        """
        if held_bytes > self._held:  # noqa: PLR1730 - a call of max() costs more, here and below
            self._held = held_bytes
        if highest_bytes > self._highest:  # noqa: PLR1730
            self._highest = highest_bytes
        self._iterations = iterations
        if not trained:
            return self._observe_evaluation(spent_ns, now_ns)
        self._observed += 1
        if self._observed == 1:
            self._spent_ns = self._squares_ns2 = self._timed = self._data_ns = self._longest_data_ns = 0
        else:  # the first iteration compiles, allocates and fills caches
            self._spent_ns += spent_ns
            self._squares_ns2 += spent_ns * spent_ns
            self._data_ns += data_ns
            self._longest_data_ns = max(self._longest_data_ns, data_ns)
            self._timed += 1
        self._in_window += 1
        if self.reported is None:
            return self._report(now_ns) if self._observed >= FIRST_REPORT_ITERATIONS else None
        if self._in_window >= WINDOW_ITERATIONS:
            profile = self._measured()
            self._windows.append((self._held, self._highest))
            due = (
                self._memory_changed(profile)
                or self._ends_at != self._reported_ends_at
                or (now_ns - self._reported_ns > TIME_REPORT_SECONDS * 1e9 and self._time_changed(profile))
            )
            self._start_window()
            return self._mark_reported(profile, now_ns) if due else None
        return self._report(now_ns) if self._exceeds_report() else None

    def _observe_evaluation(self, spent_ns: int, now_ns: int) -> Optional[Profile]:
        """Also measures a process that only evaluates, after a while: it may yet train."""
        if self.reported is not None:
            return self._report(now_ns) if self._exceeds_report() else None
        if self._observed:
            return None
        self._evaluations += 1
        if self._evaluations > 1:
            self._spent_ns += spent_ns
            self._squares_ns2 += spent_ns * spent_ns
            self._timed += 1
        return self._report(now_ns) if self._evaluations >= WINDOW_ITERATIONS else None

    def _exceeds_report(self) -> bool:
        """Returns whether more memory is used than reported. That is reported at once, because placement
        relies on it."""
        return self._highest * 100 > self._highest_reported * (100 + CHANGE_PERCENT)

    def _report(self, now_ns: int) -> Profile:
        return self._mark_reported(self._measured(), now_ns)

    def _mark_reported(self, profile: Profile, now_ns: int) -> Profile:
        self.reported = profile
        self._reported_ns = now_ns
        self._reported_ends_at = self._ends_at
        self._highest_reported = profile.persistent_bytes + profile.ephemeral_bytes
        return profile

    def _measured(self) -> Profile:
        held = max([self._held, *(window[0] for window in self._windows)])
        highest = max([self._highest, *(window[1] for window in self._windows)])
        mean_seconds = self._mean_seconds()
        return Profile(
            persistent_bytes=held,
            ephemeral_bytes=max(0, highest - held),
            framework_bytes=0,  # memory beyond the tensors: the agent measures it through NVML, and a CPU has none
            iteration_seconds=mean_seconds,
            iterations=self._iterations,
            largest_tensor_bytes=self.largest_tensor_bytes,
            model_bytes=self.model_bytes,
            iteration_seconds_spread=self._spread_seconds(),
            remaining_seconds=self._remaining_seconds(mean_seconds),
            data_seconds=self._data_seconds(),
        )

    def _data_seconds(self) -> float:
        if self._timed > 1:
            return (self._data_ns - self._longest_data_ns) / (self._timed - 1) / 1e9
        return self.reported.data_seconds if self.reported else 0.0

    def _spread_seconds(self) -> float:
        if self._timed:
            # Integers, to keep precision where the spread is small compared with the mean.
            variance = self._squares_ns2 * self._timed - self._spent_ns * self._spent_ns
            return math.sqrt(max(0, variance)) / self._timed / 1e9
        return self.reported.iteration_seconds_spread if self.reported else 0.0

    def _remaining_seconds(self, mean_seconds: float) -> Optional[float]:
        if self._ends_at is None:
            return None
        return max(0, self._ends_at - self._iterations) * mean_seconds

    def _mean_seconds(self) -> float:
        if self._timed:
            return self._spent_ns / self._timed / 1e9
        return self.reported.iteration_seconds if self.reported else 0.0

    def _memory_changed(self, profile: Profile) -> bool:
        reported = self.reported
        return reported is None or any(
            _differ(now, before)
            for now, before in (
                (profile.persistent_bytes, reported.persistent_bytes),
                (profile.ephemeral_bytes, reported.ephemeral_bytes),
                (profile.model_bytes, reported.model_bytes),
            )
        )

    def _time_changed(self, profile: Profile) -> bool:
        reported = self.reported
        if reported is None or _differ(profile.iteration_seconds, reported.iteration_seconds):
            return True
        # Compare loading time with the whole iteration: relative changes of a short time mean nothing.
        whole = profile.iteration_seconds + max(profile.data_seconds, reported.data_seconds)
        return abs(profile.data_seconds - reported.data_seconds) * 100 > CHANGE_PERCENT * whole

    def _start_window(self) -> None:
        self._held = self._highest = self._timed = self._in_window = 0
        self._spent_ns = self._squares_ns2 = self._data_ns = self._longest_data_ns = 0


def _differ(now: float, before: float) -> bool:
    return abs(now - before) * 100 > CHANGE_PERCENT * max(now, before)
