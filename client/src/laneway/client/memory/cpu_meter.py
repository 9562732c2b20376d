"""The memory of a simulated GPU: the process's CPU tensors stand for tensors on the device.

    iteration ─▶ traced? yes ─▶ records the results of every operation; refuses those beyond the limit
                         no  ─▶ compares resident memory with its last value; growth is examined at the next boundary

Iterations of a job near its limit are always traced, and so are iterations with larger inputs than before, so
the limit is exact there. A process that uses `torch.compile` is never traced, because PyTorch does not
compile under a dispatch mode. Its tensors are searched for at boundaries, and the peak between boundaries is
that of resident memory.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.memory.input_sizes import InputSizes
from laneway.client.memory.operation_tracer import OperationTracer
from laneway.client.memory.out_of_memory import out_of_memory_error, report_device_full, report_overrun
from laneway.client.memory.resident_memory import ResidentMemory
from laneway.client.memory.sampling_schedule import SamplingSchedule
from laneway.client.memory.storage_account import StorageAccount
from laneway.client.session.shared_page import HIGHEST_BYTES, LIMIT_BYTES
from laneway.client.torch_internals.compiled_code import has_compiled
from laneway.client.torch_internals.storages import cpu_storages

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.session.session import Session

log = logging.getLogger("laneway.client")

MIN_GROWTH_BYTES: Final = 1 << 20
"""Equal iterations differ in resident memory by less than this."""
GROWTH_DIVISOR: Final = 50
"""Growth counts from this fraction of the memory held, if that is more."""
GROWTH_CHECK_NS: Final = 2_000_000
"""How often to check for growth: not after every iteration where iterations take microseconds."""
REPEAT_NS: Final = 2_000_000
"""How often to repeat the last measurement, for the same reason."""
SEARCH_RATIO: Final = 200
"""Searching for tensors takes at most one part in this many of the time."""
FIRST_SEARCHES: Final = 6
"""How many searches a compiling process makes at once, for the first report."""


class CpuMeter:
    """Measures and enforces the quota while the session's GPU is simulated; otherwise does nothing."""

    def __init__(self, torch: Any, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._torch = torch
        self._clock = clock
        self._account = StorageAccount()
        self._tracer = OperationTracer(torch, self._record, self._account.is_recorded)
        self._resident = ResidentMemory()
        self._inputs: Optional[InputSizes] = None
        self._schedule = SamplingSchedule()
        self._session: Optional[Session] = None
        self._scheduled: Optional[Session] = None
        """The session that the schedule belongs to."""
        self._compiles = False
        self._tracing = False
        """Every operation of this iteration is traced."""
        self._measurement_start: Optional[tuple[int, int]] = None
        """(bytes held, bytes resident) at the start of an iteration that is measured at its boundaries."""
        self._last_measured: Optional[tuple[int, int]] = None
        """(bytes held, most held) of the last measurement. It is repeated for untraced iterations, whose
        times are undistorted."""
        self._skip_until_ns = self._skip_limit_bytes = 0
        """Until this time, and with this limit, iterations are only traced if their inputs have grown."""
        self._untraced_ns = 0
        """The duration of the last untraced iteration."""
        self._began_ns = self._growth_checked_ns = self._repeated_ns = 0
        self._searches = self._search_due_ns = 0
        self._searched_resident_bytes = 0
        self._accounted_peak_bytes: Optional[int] = None
        """The resident peak that is accounted for; None: the system reports none, so every iteration is
        traced."""

    def attach(self, session: Session) -> None:
        """Enforces this session's quota from the next iteration on."""
        if session.settings.simulated:
            self._session = session
            self._skip_until_ns = 0

    def begin(self) -> None:
        """Begins an iteration, with a new peak if it is traced."""
        session = self._session
        if session is None:
            return
        now_ns = self._began_ns = self._clock()
        if now_ns < self._skip_until_ns and session.words[LIMIT_BYTES] == self._skip_limit_bytes:
            return
        if session is not self._scheduled:
            self._start(session, now_ns)
        elif now_ns - self._growth_checked_ns >= GROWTH_CHECK_NS:
            self._growth_checked_ns = now_ns
            self._check_growth(now_ns)
        if self._compiles:
            if self._searches < FIRST_SEARCHES or now_ns >= self._search_due_ns:
                self._start_measurement(now_ns)
        elif (
            self._schedule.is_due(now_ns, _limit_bytes(session))
            or self._accounted_peak_bytes is None
            or self._tracer.active
        ):
            self.trace()
        else:
            self._skip_until_ns = min(self._growth_checked_ns + GROWTH_CHECK_NS, self._schedule.due_ns)
            self._skip_limit_bytes = session.words[LIMIT_BYTES]

    def observe_inputs(self, inputs: tuple[Any, ...]) -> None:
        """Traces the iteration if its inputs are larger than before."""
        if self._inputs is not None and self._inputs.exceed_previous(inputs):
            self.trace()

    def trace(self) -> None:
        """Traces the iteration in any case. Called before its first operation."""
        if self._session is None or self._tracing or self._compiles:
            return
        self._skip_until_ns = 0
        if has_compiled():
            self._compiles = True
            self._tracer.stop()
            self._inputs = None
            self._start_measurement(self._began_ns)
        elif self._tracer.start():
            self._tracing = True
            self._account.reset_peak()

    def end(self) -> Optional[tuple[int, int]]:
        """Returns (bytes held, most held since `begin`), of this iteration or an earlier one; None where
        nothing is due."""
        if self._tracing:
            return self._end_traced()
        if self._measurement_start is not None:
            return self._end_measured(*self._measurement_start)
        now_ns = self._clock()
        self._untraced_ns = now_ns - self._began_ns
        if now_ns - self._repeated_ns < REPEAT_NS:
            return None
        self._repeated_ns = now_ns
        return self._last_measured

    def sample(self) -> tuple[int, int]:
        """Returns (bytes held, most held since the last sample), in a traced iteration."""
        return self._account.sample()

    def after_move(self, storages: list[Any]) -> Optional[int]:
        """Updates the sizes of storages that were emptied or filled. Called while the training thread waits
        for that."""
        if self._scheduled is None:
            return None
        for storage in storages:
            self._account.record(storage)
        return self._account.apply_frees()

    def prepare_release(self) -> None:
        """Does nothing: CPU operations are done when they return."""

    def free_memory(self) -> None:
        """Does nothing: freed memory is returned at once."""

    def forget(self) -> None:
        """Stops tracing in a forked child."""
        self._session = self._scheduled = self._inputs = None
        self._tracer.stop()
        self._account.limit = 1 << 62

    def _start(self, session: Session, now_ns: int) -> None:
        """Handles the first iteration with this session."""
        first = self._scheduled is None
        if first:
            self._inputs = InputSizes(self._torch)
        self._scheduled = session
        self._schedule = SamplingSchedule()
        try:
            if first:
                self._search(now_ns, "earlier work of the script")
        finally:
            try:
                self._resident.reset_peak()
                self._accounted_peak_bytes = self._resident.highest_bytes()
            except OSError as error:
                log.debug("every iteration is traced: %s", error)

    def _check_growth(self, now_ns: int) -> None:
        """Finds memory that was allocated outside traced iterations by the growth of resident memory, and
        schedules tracing."""
        if self._accounted_peak_bytes is None:
            return
        allowed_bytes = max(MIN_GROWTH_BYTES, self._account.held // GROWTH_DIVISOR)
        highest_bytes = self._resident.highest_bytes()
        if self._tracer.active:
            self._accounted_peak_bytes = max(self._accounted_peak_bytes, highest_bytes)
        elif highest_bytes > self._accounted_peak_bytes + allowed_bytes:
            self._accounted_peak_bytes = highest_bytes
            self._schedule.on_growth()
            self._search(now_ns, "work of the script between traced iterations")
            return
        if now_ns >= self._search_due_ns and self._schedule.is_due_by_time(now_ns):
            grown_bytes = self._resident.bytes_now() - self._searched_resident_bytes
            if grown_bytes > allowed_bytes:
                self._search(now_ns, "work of the script between traced iterations")

    def _search(self, now_ns: int, what: str) -> None:
        """Records all tensors known to Python, including those made in untraced iterations."""
        self._searches += 1
        try:
            for storage in cpu_storages(self._torch):
                self._record(storage, what)
        finally:
            done_ns = self._clock()
            self._search_due_ns = done_ns + SEARCH_RATIO * (done_ns - now_ns)
            self._searched_resident_bytes = self._resident.bytes_now()

    def _start_measurement(self, now_ns: int) -> None:
        self._search(now_ns, "work of the script between traced iterations")
        if self._accounted_peak_bytes is not None:
            self._resident.reset_peak()
            self._measurement_start = self._account.apply_frees(), self._searched_resident_bytes

    def _end_measured(self, held_bytes: int, resident_bytes: int) -> Optional[tuple[int, int]]:
        self._measurement_start = None
        highest_bytes = held_bytes + max(0, self._resident.highest_bytes() - resident_bytes)
        self._search(self._clock(), "the iteration")
        held_bytes = self._account.apply_frees()
        self._last_measured = held_bytes, max(held_bytes, highest_bytes)
        return self._last_measured

    def _end_traced(self) -> Optional[tuple[int, int]]:
        self._tracing = False
        session, schedule = self._session, self._schedule
        found = self._account.apply_frees(), self._account.highest
        now_ns = self._clock()
        spent_ns = now_ns - self._began_ns
        schedule.on_sampled(now_ns, max(0, spent_ns - (self._untraced_ns or spent_ns // 2)), found[1])
        if self._accounted_peak_bytes is not None:
            self._accounted_peak_bytes = max(self._accounted_peak_bytes, self._resident.highest_bytes())
            if session is None or not schedule.continues(_limit_bytes(session)):
                self._tracer.stop()
        if not schedule.is_brief:
            self._last_measured = found
            return found
        if schedule.is_first_of_two or self._last_measured is None:
            self._last_measured = found
        else:
            self._last_measured = max(found[0], self._last_measured[0]), max(found[1], self._last_measured[1])
        return None  # tracing has distorted its time

    def _record(self, storage: Any, what: Any) -> None:
        account, session = self._account, self._session
        if storage is None or session is None:
            return
        account.limit = _limit_bytes(session)
        highest_bytes = account.highest
        refused_bytes = account.record(storage)
        if account.highest > highest_bytes:
            session.words[HIGHEST_BYTES] = account.highest
        if refused_bytes:
            raise out_of_memory_error(self._torch)(self._refusal(session, refused_bytes, str(what)))

    def _refusal(self, session: Session, wanted_bytes: int, what: str) -> str:
        held_bytes, limit_bytes = self._account.held, session.words[LIMIT_BYTES]
        if held_bytes + wanted_bytes <= session.settings.quota_bytes:
            return report_device_full(session, limit_bytes, held_bytes, wanted_bytes, what)
        return report_overrun(session, held_bytes, wanted_bytes, what)


def _limit_bytes(session: Session) -> int:
    quota_bytes, limit_bytes = session.settings.quota_bytes, session.words[LIMIT_BYTES]
    return min(quota_bytes, limit_bytes) if limit_bytes else quota_bytes
