"""Executes the agent's orders to move the process's device memory to the host and back, at iteration
boundaries.

An order arrives over the socket, in whichever thread reads it. It is executed while the training thread waits
for a turn, because elsewhere the script may be using its tensors. So memory is only offloaded while a thread
waits in the iteration guard. Whatever ends the wait restores it first: a turn, the end of the agent, a signal
handler.

The move runs in a new thread, in which none of the script's modes apply (no_grad, autocast, dispatch modes,
streams). The thread that has the order waits for it.
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
    """The memory was not moved; the message says why."""


class Mover(Protocol):
    """Moves the memory of one framework."""

    simulated: bool
    """The GPU is simulated: CPU memory stands for device memory."""

    def move_out(self) -> int:
        """Moves the persistent memory to the host; returns the bytes freed on the device.

        Raises:
            CannotMoveError: nothing was moved.
        """

    def move_back(self) -> None:
        """Moves the memory back into the same tensors, bit for bit. Does nothing where nothing is offloaded.

        Raises:
            CannotMoveError: part of it is still on the host; another call continues.
        """

    def held_bytes(self) -> Optional[int]:
        """Returns the bytes that the process holds of the device, or None where unknown."""


class Offloader:
    """Tracks where this process's memory is, and where the agent wants it."""

    def __init__(self, send_message: Callable[..., None], on_moved: Callable[[int], None]) -> None:
        """Starts with the memory on the device.

        Args:
            send_message: sends a message to the agent, like `Session.send_message`.
            on_moved: called with the bytes held after each move.
        """
        self.mover: Optional[Mover] = None
        """None: the framework's memory is unknown, so it cannot be moved."""
        self.is_offloaded = False
        """The memory, or part of it, is on the host."""
        self._send_message = send_message
        self._on_moved = on_moved
        self._wants_offloaded = False
        self._freed_bytes = 0
        self._ending = False
        self._failure: Optional[BaseException] = None
        """Why the last move failed."""
        # A signal handler may run while its own thread holds the lock.
        self._lock = threading.RLock()
        self._worker: Optional[threading.Thread] = None

    @property
    def capabilities(self) -> list[str]:
        """The capabilities that hello announces."""
        return ["pause"] if self.mover is None else ["pause", OFFLOAD]

    @property
    def pending(self) -> bool:
        """Whether a thread that waits for a turn has an order to execute."""
        return self._wants_offloaded != self.is_offloaded and self._worker is None

    def attach(self, simulated: bool) -> None:
        """Resets the wanted state for a new session, which will send its own orders."""
        with self._lock:
            if self.mover is not None:
                self.mover.simulated = simulated
            if self._worker is None:
                self._wants_offloaded = self.is_offloaded

    def on_order(self, kind: str) -> None:
        """Records an order. It is answered at once if it asks for the present state."""
        with self._lock:
            if kind == OFFLOAD and self.mover is None:
                self._send_message("refused", order=kind, message="this framework's memory cannot be moved")
            elif kind == OFFLOAD and self._ending:
                self._send_message("refused", order=kind, message="the process was asked to stop")
            else:
                self._wants_offloaded = kind == OFFLOAD
                if self._worker is None and self._wants_offloaded == self.is_offloaded:
                    self._answer(0.0)

    def execute_orders(self) -> None:
        """Executes the pending orders. Called by a thread that waits for a turn; returns when they are done
        or refused."""
        while self.pending:
            self._work(OFFLOAD if self._wants_offloaded else RESTORE)

    def restore_memory(self) -> None:
        """Brings the memory back before the script continues, regardless of the order. May be called in a
        signal handler.

        Raises:
            Exception: the framework's own, such as its OutOfMemoryError, where the device has no free memory
                for it.
        """
        worker = self._worker
        if worker is not None:
            worker.join()
        with self._lock:
            self._wants_offloaded = False
        for _ in range(2):  # the first round may have waited for another thread's move
            if self.is_offloaded:
                self._work(RESTORE)
        if self.is_offloaded and self._failure is not None:
            raise self._failure

    def end(self) -> None:
        """Brings the memory back for good: the process was asked to stop."""
        self._ending = True
        self.restore_memory()

    # --- internals ---

    def _work(self, order: str) -> None:
        """Executes an order and waits for it. While another move is running, waits for that one instead."""
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
            log.warning("internal error while moving memory: %r", fault, exc_info=fault)
            refusal, self._failure = f"internal error of the client: {fault!r}", fault
        held_bytes = self.mover.held_bytes() if self.mover is not None else None
        if held_bytes is not None:
            self._on_moved(held_bytes)
        with self._lock:
            self._worker = None
            if refusal:
                self._wants_offloaded = self.is_offloaded
                self._send_message("refused", order=order, message=refusal[:1024])
            else:
                self._answer(time.monotonic() - began_seconds)

    def _move_out(self) -> None:
        assert self.mover is not None, "an order needs a mover"
        self._freed_bytes = self.mover.move_out()
        self.is_offloaded = True

    def _move_back(self) -> None:
        assert self.mover is not None, "offloaded memory needs a mover"
        self.mover.move_back()
        self.is_offloaded = False

    def _answer(self, seconds: float) -> None:
        fields: dict[str, Any] = {"seconds": round(seconds, 6)}
        if self.is_offloaded:
            self._send_message("offloaded", freed_bytes=self._freed_bytes, **fields)
        else:
            self._send_message("restored", **fields)
