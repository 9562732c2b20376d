"""SIGTERM at an iteration boundary: the script's own handler runs between two iterations, never inside one.

Before each iteration the training thread looks whether the script has put in a handler of its own since the last one, and if so
puts a `Deferral` around it. A SIGTERM then only makes a note; it is *delivered*, that is the script's handler is called in
the main thread, or SystemExit(143) raised where the script has none and never asked `laneway.client.stopping()`, at the first of these moments:

- just before the next iteration, when the script's own bookkeeping (step counter, learning-rate schedule) of the last is done;
- `SETTLE_SECONDS` after a boundary, if no further iteration begins;
- at the deadline, wherever the script is then.

Of several ranks (torch.distributed) all are told at the same boundary, also those that got no signal: a rank that stopped by itself would
leave the others in their next all-reduce (`common_boundary`).

The listening thread watches the last two and sends the signal anew to the main thread.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.common_boundary import STOP

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.common_boundary import CommonBoundary

log = logging.getLogger("laneway.client")

SETTLE_SECONDS: Final = 1.0
"""Time for a script's bookkeeping after an iteration."""

SIGTERM: Final = int(signal.SIGTERM)
EXIT_STATUS: Final = 128 + SIGTERM
_current_handler = getattr(sys.modules.get("_signal"), "getsignal", signal.getsignal)
"""The C function behind it, where there is one: it takes a hundredth of the time, and this is asked before each iteration."""


class StopSignal:
    """What became of SIGTERM in this process."""

    def __init__(
        self, timeout_seconds: float, wake: Callable[[], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Touches no signal yet: `adopt` does.

        Args:
            timeout_seconds: the deadline, from the signal on; below the pod's grace period.
            wake: called when a SIGTERM comes, in the signal handler: wakes the listening thread and whoever waits for a turn.
            clock: seconds that only rise.
        """
        self.timeout_seconds = timeout_seconds
        self.requested = False
        """A SIGTERM has come."""
        self.pending = False
        """It has not been delivered yet."""
        self.inside = False
        """An iteration goes on; written by the gate."""
        self.watched = False
        """The script asks `laneway.client.stopping()`: where it has no handler, that is its way to know."""
        self.boundary_ns = 0
        """When the last one ended, CLOCK_MONOTONIC; written by the gate."""
        self.before_delivery: Callable[[], None] = _nothing
        """Makes the process whole for what the script does when it is told."""
        self.gang: Optional[CommonBoundary] = None
        """What the ranks agree with, until they have agreed; None for a process on its own."""
        self.iterations: Callable[[], int] = int
        """How many iterations have ended, the same on all ranks."""
        self.raised: Optional[BaseException] = None
        """What the script's handler raised last: not a fault of ours."""
        self._wake = wake
        self._clock = clock
        self._came_seconds = 0.0
        self._deferral: Optional[Deferral] = None
        self._delivering = False
        self._held = False
        """It has come, and waits for what the ranks agree on."""
        self._told_ahead = False
        """The script was told on behalf of another rank: this one's own signal, when it comes, is no news."""
        self._main_thread_id = threading.main_thread().ident or 0
        self._at_once = False

    # --- the training thread ---

    def adopt(self) -> None:
        """Puts a deferral around the script's handler if that is new. Costs a tenth of a microsecond where nothing is."""
        handler = _current_handler(SIGTERM)
        if type(handler) is Deferral or threading.get_ident() != self._main_thread_id:
            return
        if handler is None or handler == signal.SIG_IGN:
            return  # C code has it, or the script wants no SIGTERM
        with suppress(ValueError):  # no interpreter of a process but its first may
            signal.signal(signal.SIGTERM, Deferral(self, handler if callable(handler) else None))

    def watch(self) -> bool:
        """The script asks: whether a SIGTERM has come. It will be told this way from now on."""
        self.watched = True
        self.adopt()
        return self.requested

    def meet(self, gang: CommonBoundary, setting_out: bool = True) -> None:
        """Between two iterations: has the signal delivered where the ranks have agreed on this boundary, whoever of them got it.

        Args:
            gang: what they agree with.
            setting_out: whether the next iteration begins now, if not.
        """
        if gang.arrive(self.iterations(), setting_out) != STOP and not self._is_overdue():
            return
        self.gang = None
        self._held = False
        self._told_ahead = not self.requested
        handler = _current_handler(SIGTERM)
        if type(handler) is Deferral:
            self._deferral = handler
        self._take_note()
        self.pending = True

    def boundary(self) -> None:
        """An iteration has ended while a signal was pending: has the listening thread look when it is due."""
        self._wake()

    def deliver(self) -> None:
        """Calls the script's handler, in the main thread; what it raises goes through, as does SystemExit(143) where it has none."""
        if not self.pending:
            return
        if threading.get_ident() != self._main_thread_id:
            self._at_once = True
            self._nudge()
            return
        self.before_delivery()
        self.pending = self._at_once = False
        handler = self._deferral.script if self._deferral else None
        if handler is None:
            if self.watched:
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
        """What ends a script without a handler. Python drops what is raised in the middle of a destructor or a weak reference's
        callback, wherever the signal happened to come: then it is raised again."""
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
        """How long a script that was asked to stop may still wait for a turn; None when it was not asked."""
        return self._came_seconds + self.timeout_seconds - self._clock() if self.requested else None

    def restore(self) -> None:
        """Puts the script's own handler back, in a forked child."""
        handler = _current_handler(SIGTERM)
        if type(handler) is Deferral and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler.script or signal.SIG_DFL)

    # --- the signal handler, in the main thread ---

    def arrived(self, deferral: Deferral, signum: int, frame: Any) -> None:
        """A SIGTERM came, from outside or from the listening thread."""
        if self._delivering:
            # The script's handler calls the one that was there before it: ours, around that one.
            if deferral.script is not None:
                deferral.script(signum, frame)
            return
        if self._told_ahead:
            self._told_ahead = False
            return
        self._deferral = deferral
        self._take_note()
        due = self._due_seconds() <= self._clock()
        if self.gang is None or self.watched:
            self.pending = True
        else:
            self._held = True
            if due:
                self.meet(self.gang, setting_out=False)
        if due and self.pending:
            self.deliver()
        else:
            self._wake()

    # --- the listening thread ---

    def patience(self) -> Optional[float]:
        """Sends the signal anew when it is due; returns the seconds until it will be, None when none is pending."""
        if not self.pending and not self._held:
            return None
        left = self._due_seconds() - self._clock()
        if left > 0:
            return left
        self._nudge()
        return SETTLE_SECONDS

    def _take_note(self) -> None:
        if not self.requested:
            self.requested = True
            self._came_seconds = self._clock()

    def _is_overdue(self) -> bool:
        return self.requested and self._clock() >= self._came_seconds + self.timeout_seconds

    def _due_seconds(self) -> float:
        if self._at_once:
            return 0.0
        deadline = self._came_seconds + self.timeout_seconds
        return deadline if self.inside else min(deadline, self.boundary_ns / 1e9 + SETTLE_SECONDS)

    def _nudge(self) -> None:
        signal.pthread_kill(self._main_thread_id, signal.SIGTERM)


class Deferral:
    """The handler that Python knows of: one for each handler of the script, so that a script may save it and put it back."""

    __slots__ = ("_stop", "script")

    def __init__(self, stop: StopSignal, script: Optional[Callable[[int, Any], Any]]) -> None:
        self._stop = stop
        self.script = script

    def __call__(self, signum: int, frame: Any) -> None:
        self._stop.arrived(self, signum, frame)


def _nothing() -> None:
    return
