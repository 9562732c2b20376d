"""Orders to move the process's device memory to the host and back, carried out at an iteration boundary.

The order comes over the socket, in whichever thread reads it; it is carried out while the training thread waits for a turn, because anywhere else the
script may be using its tensors. So memory is away only while a thread is in the gate's wait; whatever ends the wait brings it back first: a turn, the
end of the agent, a signal's handler.

The work itself is done in a thread made for it, in which none of the script's modes hold (no_grad, autocast, dispatch modes, streams). The one that has
the order waits for it.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Optional, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("laneway.client")

OFFLOAD: Final = "offload"
RESTORE: Final = "restore"


class CannotMoveError(Exception):
    """The memory stays where it is; the message says why."""


class Mover(Protocol):
    """What knows a framework's memory."""

    simulated: bool
    """The GPU is simulated: memory of the CPU stands for the device's."""

    def move_out(self) -> int:
        """Moves what lasts over iterations to the host; returns the bytes that the device has back.

        Raises:
            CannotMoveError: nothing was moved.
        """

    def move_back(self) -> None:
        """Moves it back, into the same tensors, bit by bit as it was; nothing happens where nothing is away.

        Raises:
            CannotMoveError: some of it is still on the host; another call goes on.
        """

    def held_bytes(self) -> Optional[int]:
        """What the process holds of the device now; None where that is not known."""


class Offload:
    """Where this process's memory is, and where the agent wants it."""

    def __init__(self, tell: Callable[..., None], on_moved: Callable[[int], None]) -> None:
        """Begins with the memory on the device.

        Args:
            tell: sends a message to the agent, as `Session.tell` does.
            on_moved: called with the bytes that are held after each move.
        """
        self.mover: Optional[Mover] = None
        """None: nothing is known of the framework's memory, so it cannot be moved."""
        self.away = False
        """The memory is on the host, or some of it."""
        self._tell = tell
        self._on_moved = on_moved
        self._wanted_away = False
        self._freed_bytes = 0
        self._ending = False
        self._failure: Optional[BaseException] = None
        """Why the memory could not be moved last."""
        # A signal's handler may come while its own thread has the lock.
        self._lock = threading.RLock()
        self._worker: Optional[threading.Thread] = None

    @property
    def abilities(self) -> list[str]:
        """What a hello says that this process can do."""
        return ["pause"] if self.mover is None else ["pause", OFFLOAD]

    @property
    def pending(self) -> bool:
        """There is something to be done by a thread that waits for a turn."""
        return self._wanted_away != self.away and self._worker is None

    def attach(self, simulated: bool) -> None:
        """There is a new session, which tells anew what is wanted."""
        with self._lock:
            if self.mover is not None:
                self.mover.simulated = simulated
            if self._worker is None:
                self._wanted_away = self.away

    def ordered(self, kind: str) -> None:
        """An order came. One that asks for what is the case already is answered at once."""
        with self._lock:
            if kind == OFFLOAD and self.mover is None:
                self._tell("refused", order=kind, message="nothing is known of this framework's memory")
            elif kind == OFFLOAD and self._ending:
                self._tell("refused", order=kind, message="the process was asked to stop")
            else:
                self._wanted_away = kind == OFFLOAD
                if self._worker is None and self._wanted_away == self.away:
                    self._answer(0.0)

    def carry_out(self) -> None:
        """Does what was ordered. Called by a thread that waits for a turn; returns when it is done, or refused."""
        while self.pending:
            self._work(OFFLOAD if self._wanted_away else RESTORE)

    def bring_back(self) -> None:
        """The script goes on: its memory has to be there, whatever was ordered. May be called in a signal's handler.

        Raises:
            Exception: the framework's own, such as its OutOfMemoryError, where the device has no room for it.
        """
        worker = self._worker
        if worker is not None:
            worker.join()
        with self._lock:
            self._wanted_away = False
        for _ in range(2):  # the first may have been another thread's work
            if self.away:
                self._work(RESTORE)
        if self.away and self._failure is not None:
            raise self._failure

    def end(self) -> None:
        """The process is asked to stop: brings its memory back for what the script does now, and keeps it there."""
        self._ending = True
        self.bring_back()

    # --- within ---

    def _work(self, order: str) -> None:
        """Has the order carried out, and waits for that; where other work goes on, waits for that and does no more."""
        with self._lock:
            worker = self._worker
            if worker is None:
                worker = threading.Thread(
                    target=self._guarded, args=(order,), name="laneway-offload", daemon=True
                )
                self._worker = worker
                worker.start()
        worker.join()

    def _guarded(self, order: str) -> None:
        began_seconds = time.monotonic()
        refusal = ""
        try:
            if order == OFFLOAD:
                self._move_out()
            else:
                self._move_back()
        except CannotMoveError as error:
            refusal, self._failure = str(error), error.__cause__ or error
        except Exception as fault:
            log.warning("a fault while memory was moved: %r", fault, exc_info=fault)
            refusal, self._failure = f"a fault of the client: {fault!r}", fault
        held_bytes = self.mover.held_bytes() if self.mover is not None else None
        if held_bytes is not None:
            self._on_moved(held_bytes)
        with self._lock:
            self._worker = None
            if refusal:
                self._wanted_away = self.away
                self._tell("refused", order=order, message=refusal[:1024])
            else:
                self._answer(time.monotonic() - began_seconds)

    def _move_out(self) -> None:
        assert self.mover is not None, "only what can be moved is ordered to"
        self._freed_bytes = self.mover.move_out()
        self.away = True

    def _move_back(self) -> None:
        assert self.mover is not None, "only what was moved is away"
        self.mover.move_back()
        self.away = False

    def _answer(self, seconds: float) -> None:
        fields: dict[str, Any] = {"seconds": round(seconds, 6)}
        if self.away:
            self._tell("offloaded", freed_bytes=self._freed_bytes, **fields)
        else:
            self._tell("restored", **fields)
