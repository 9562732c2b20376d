"""SIGTERM at iteration boundaries: the script's own handler runs between two iterations, never inside one.

Before each iteration the training thread checks for a new handler of the script and wraps it in a
`DeferredHandler`. A SIGTERM is then only recorded, and *delivered* later: the script's handler is called in
the main thread. A script without a handler that never called `laneway.client.stopping()` gets
SystemExit(143). Delivery happens at the first of these moments:

- just before the next iteration, when the script's bookkeeping of the last one (step counter, learning rate)
  is done;
- `SETTLE_SECONDS` after a boundary, if no further iteration begins;
- at the deadline, wherever the script is then.

All ranks of a distributed training stop at the same boundary, including those without a signal. A rank that
stopped alone would leave the others in their next all-reduce (`common_boundary`).

The listening thread watches the last two moments, and sends the signal again to the main thread.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.distributed.common_boundary import STOP

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.distributed.common_boundary import CommonBoundary

log = logging.getLogger("laneway.client")

SETTLE_SECONDS: Final = 1.0
"""Time for a script's bookkeeping after an iteration."""

SIGTERM: Final = int(signal.SIGTERM)
EXIT_STATUS: Final = 128 + SIGTERM
_current_handler = getattr(sys.modules.get("_signal"), "getsignal", signal.getsignal)
"""The C function, if available: it is called before each iteration and takes a hundredth of the wrapper's
time."""


class StopSignal:
    """The state of SIGTERM in this process."""

    def __init__(
        self, timeout_seconds: float, wake: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Installs no handler yet; `wrap_handler` does.

        Args:
            timeout_seconds: the deadline, counted from the signal; shorter than the pod's grace period.
            wake: called in the signal handler; wakes the listening thread and a thread that waits for a turn.
            clock: monotonic time in seconds.
        """
        self.timeout_seconds = timeout_seconds
        self.requested = False
        """A SIGTERM has come."""
        self.pending = False
        """It has not been delivered yet."""
        self.in_iteration = False
        """An iteration is running; set by the guard."""
        self.is_polled = False
        """The script calls `laneway.client.stopping()`, so without a handler it learns of the signal this
        way."""
        self.boundary_ns = 0
        """When the last iteration ended (CLOCK_MONOTONIC); set by the guard."""
        self.before_delivery: Callable[[], None] = _nothing
        """Brings offloaded memory back before the script's handler runs."""
        self.gang: Optional[CommonBoundary] = None
        """The agreement of the ranks, until it is reached; None for a single process."""
        self.iterations: Callable[[], int] = int
        """Returns the number of completed iterations, which is the same on all ranks."""
        self.raised: Optional[BaseException] = None
        """The exception that the script's handler raised last; it is not an internal error."""
        self._wake = wake
        self._clock = clock
        self._requested_at_seconds = 0.0
        self._deferral: Optional[DeferredHandler] = None
        self._delivering = False
        self._awaiting_gang = False
        """A signal has come and waits for the agreement of the ranks."""
        self._delivered_early = False
        """The script was stopped on behalf of another rank, so this rank's own signal is ignored when it
        comes."""
        self._main_thread_id = threading.main_thread().ident or 0
        self._at_once = False

    # --- the training thread ---

    def wrap_handler(self) -> None:
        """Wraps the script's handler if it is new. Costs a tenth of a microsecond otherwise."""
        handler = _current_handler(SIGTERM)
        if type(handler) is DeferredHandler or threading.get_ident() != self._main_thread_id:
            return
        if handler is None or handler == signal.SIG_IGN:
            return  # C code handles it, or the script ignores SIGTERM
        with suppress(ValueError):  # only the main interpreter may set handlers
            signal.signal(signal.SIGTERM, DeferredHandler(self, handler if callable(handler) else None))

    def poll(self) -> bool:
        """Returns whether a SIGTERM has come. From now on the script learns of it through this call."""
        self.is_polled = True
        self.wrap_handler()
        return self.requested

    def sync_with_gang(self, gang: CommonBoundary, continuing: bool = True) -> None:
        """Delivers the signal if the ranks have agreed on this boundary, whichever rank got it. Called
        between iterations.

        Args:
            gang: the agreement of the ranks.
            continuing: whether the next iteration begins now, if the signal is not delivered.
        """
        if gang.arrive(self.iterations(), continuing) != STOP and not self._is_overdue():
            return
        self.gang = None
        self._awaiting_gang = False
        self._delivered_early = not self.requested
        handler = _current_handler(SIGTERM)
        if type(handler) is DeferredHandler:
            self._deferral = handler
        self._mark_requested()
        self.pending = True

    def on_boundary(self) -> None:
        """Makes the listening thread compute the new deadline: an iteration has ended with a signal pending."""
        self._wake()

    def deliver(self) -> None:
        """Calls the script's handler in the main thread, or raises SystemExit(143) where there is none. Its
        exceptions pass through."""
        if not self.pending:
            return
        if threading.get_ident() != self._main_thread_id:
            self._at_once = True
            self._resend_signal()
            return
        self.before_delivery()
        self.pending = self._at_once = False
        handler = self._deferral.script if self._deferral else None
        if handler is None:
            if self.is_polled:
                return
            raise self._exit()
        self._delivering = True
        try:
            handler(signal.SIGTERM, None)
        except BaseException as raised:
            self.raised = raised
            raise
        finally:
            self._delivering = False

    def _exit(self) -> SystemExit:
        """Returns the exception that ends a script without a handler.

        Python drops exceptions raised in a destructor or a weak reference's callback, which the signal may
        have interrupted. The signal is then delivered again.
        """
        leaving = SystemExit(EXIT_STATUS)
        before = sys.unraisablehook

        def dropped(unraisable: Any) -> None:
            if unraisable.exc_value is not leaving:
                before(unraisable)
                return
            sys.unraisablehook = before
            self.pending = True
            self._wake()

        sys.unraisablehook = dropped
        return leaving

    def seconds_left(self) -> Optional[float]:
        """Returns how long a script that was asked to stop may still wait for a turn; None if it was not
        asked."""
        return self._requested_at_seconds + self.timeout_seconds - self._clock() if self.requested else None

    def restore_handler(self) -> None:
        """Restores the script's own handler in a forked child."""
        handler = _current_handler(SIGTERM)
        if type(handler) is DeferredHandler and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler.script or signal.SIG_DFL)

    # --- the signal handler, in the main thread ---

    def on_signal(self, deferral: DeferredHandler, signum: int, frame: Any) -> None:
        """Records a SIGTERM from outside or from the listening thread, and delivers it if it is due."""
        if self._delivering:
            # The script's handler calls its predecessor, which is this one: call the handler that it wraps.
            if deferral.script is not None:
                deferral.script(signum, frame)
            return
        if self._delivered_early:
            self._delivered_early = False
            return
        self._deferral = deferral
        self._mark_requested()
        due = self._due_seconds() <= self._clock()
        if self.gang is None or self.is_polled:
            self.pending = True
        else:
            self._awaiting_gang = True
            if due:
                self.sync_with_gang(self.gang, continuing=False)
        if due and self.pending:
            self.deliver()
        else:
            self._wake()

    # --- the listening thread ---

    def get_timeout(self) -> Optional[float]:
        """Sends the signal again when it is due; returns the seconds until then, or None when none is
        pending."""
        if not self.pending and not self._awaiting_gang:
            return None
        left = self._due_seconds() - self._clock()
        if left > 0:
            return left
        self._resend_signal()
        return SETTLE_SECONDS

    def _mark_requested(self) -> None:
        if not self.requested:
            self.requested = True
            self._requested_at_seconds = self._clock()

    def _is_overdue(self) -> bool:
        return self.requested and self._clock() >= self._requested_at_seconds + self.timeout_seconds

    def _due_seconds(self) -> float:
        if self._at_once:
            return 0.0
        deadline = self._requested_at_seconds + self.timeout_seconds
        return deadline if self.in_iteration else min(deadline, self.boundary_ns / 1e9 + SETTLE_SECONDS)

    def _resend_signal(self) -> None:
        signal.pthread_kill(self._main_thread_id, signal.SIGTERM)


class DeferredHandler:
    """The handler registered with Python. Each handler of the script has its own, so that a script may save
    and restore it."""

    __slots__ = ("_stop", "script")

    def __init__(self, stop: StopSignal, script: Optional[Callable[[int, Any], Any]]) -> None:
        self._stop = stop
        self.script = script

    def __call__(self, signum: int, frame: Any) -> None:
        self._stop.on_signal(self, signum, frame)


def _nothing() -> None:
    return
