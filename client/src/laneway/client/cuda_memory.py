"""The memory of a real GPU: PyTorch's caching allocator measures, and keeps the limit (its per-process memory fraction)."""

from __future__ import annotations

import logging
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.out_of_memory import full_message, out_of_memory_error, report_overrun

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.session import Session

log = logging.getLogger("laneway.client")

ALWAYS_MEASURED: Final = 10
"""The first iterations are all measured; later ones now and then, because the allocator's statistics cost some 100 µs to read."""
MEASURE_SECONDS: Final = 0.5
REFUSED: Final = "out of memory. Tried to allocate"
"""In the text of PyTorch's allocator, and not in that of an error which a script raises by itself."""


class CudaMeter:
    """Measures the current device. Touches nothing before the script itself has initialised CUDA."""

    def __init__(self, torch: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._torch = torch
        self._cuda = torch.cuda
        self._clock = clock
        self._session: Optional[Session] = None
        self._device: Optional[int] = None
        """Which one the thread that trains uses; other threads of the process have another current device."""
        self._held_to: Optional[tuple[int, int]] = None
        """(device, bytes) of the limit that was set last."""
        self._observes = False
        self._measured = 0
        self._measuring = False
        self._next_seconds = 0.0
        self._capturing = False
        """The script captures a CUDA graph: the device must not be waited for, nor memory given back, or the capture is lost."""
        self._highest_bytes = 0
        """The most in the iteration that goes on, up to the last look."""
        self._refusal = ""
        """What the error says beside PyTorch's own words that the allocator is about to raise."""

    def attach(self, session: Session) -> None:
        """Holds the process to this session's quota as soon as the script has initialised CUDA."""
        self._session = session
        self._cuda._lazy_call(self._hold_from_the_start)

    def begin(self) -> None:
        """Starts a new peak where this iteration is to be measured."""
        if self._session is None or not self._cuda.is_initialized():
            return
        self._capturing = self._cuda.is_current_stream_capturing()
        self._measuring = not self._capturing and (
            self._measured < ALWAYS_MEASURED or self._clock() >= self._next_seconds
        )
        self._highest_bytes = 0
        if self._measuring:
            self._device = self._cuda.current_device()
            self._hold_to_quota()
            self._cuda.reset_peak_memory_stats()

    def take_in(self, inputs: tuple[Any, ...]) -> None:
        """The allocator sees what comes of them."""

    def watch(self) -> None:
        """The allocator's statistics are right at any moment."""

    def end(self) -> Optional[tuple[int, int]]:
        """(bytes allocated, highest since the last measured iteration began), or None."""
        if not self._measuring:
            return None
        self._measuring = False
        self._measured += 1
        self._next_seconds = self._clock() + MEASURE_SECONDS
        return self._cuda.memory_allocated(), max(self._highest_bytes, self._cuda.max_memory_allocated())

    def look(self) -> tuple[int, int]:
        """(bytes allocated, the most since the last look). Costs what the allocator's statistics cost."""
        crest_bytes: int = self._cuda.max_memory_allocated()
        self._highest_bytes = max(self._highest_bytes, crest_bytes)
        self._cuda.reset_peak_memory_stats()
        return self._cuda.memory_allocated(), crest_bytes

    def moved(self, storages: list[Any]) -> Optional[int]:
        """Gives the blocks of storages that were emptied back to the device."""
        if not self._cuda.is_initialized():
            return None
        self._cuda.empty_cache()
        held_bytes: int = self._cuda.memory_allocated()
        return held_bytes

    def settle(self) -> None:
        """The next job's kernels start when ours have ended, and find the blocks that our allocator had cached."""
        if self._cuda.is_initialized() and not self._capturing:
            self._cuda.synchronize(self._device)
            self._cuda.empty_cache()

    def _hold_from_the_start(self) -> None:
        """CUDA is there. Where the process sees several devices it waits for the first iteration to show which one it uses: setting a limit
        makes a context on the device, of some hundred MB."""
        if self._device is not None or self._cuda.device_count() == 1:
            self._hold_to_quota()

    def _hold_to_quota(self) -> None:
        """PyTorch's allocator keeps to a part of a device's memory, where the allocator that the script has chosen can. Never raises: PyTorch
        calls it while it initialises CUDA, and would pass on whatever comes out of it."""
        try:
            self._limit_allocator()
        except Exception as error:
            log.warning(
                "PyTorch's allocator is not held to the quota, the node's watchdog alone is: %s", error
            )

    def _limit_allocator(self) -> None:
        session = self._session
        if session is None:
            return
        device = self._cuda.current_device() if self._device is None else self._device
        limit = (device, session.welcome.tensor_bytes)
        if limit == self._held_to:
            return
        self._held_to = limit
        # What the fraction will be taken of: as a client of MPS, a process is told its own limit there, and the device's memory in its properties.
        _, total_bytes = self._cuda.mem_get_info(device)
        self._cuda.set_per_process_memory_fraction(min(1.0, limit[1] / total_bytes), device)
        attach_observer = getattr(self._torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach_observer is not None and not self._observes:
            attach_observer(self._out_of_memory)
            self._observes = True
            self._extend_errors(out_of_memory_error(self._torch))

    def _extend_errors(self, kind: Any) -> None:
        """Has PyTorch's errors of this class say why we refused the memory.

        The allocator is C++, and a backward pass runs in other threads, so no hook sees the error on its way to the script. What it passes in any case is
        the making of the Python object. The text stays one string, in one line: libraries look for PyTorch's words in the only argument
        (Accelerate and Lightning, before they try a smaller batch), and what becomes of a container tells the last line of its log.
        """
        initialise = kind.__init__

        def initialise_with_refusal(error: BaseException, *args: Any) -> None:
            initialise(error, *args)
            if self._refusal and len(args) == 1 and REFUSED in str(args[0]):
                refusal, self._refusal = self._refusal, ""
                error.args = (f"{args[0]} {refusal}",)

        kind.__init__ = initialise_with_refusal

    def _out_of_memory(self, device: int, wanted_bytes: int, allowed_bytes: int, free_bytes: int) -> None:
        """PyTorch is about to raise its OutOfMemoryError: our sentence goes into it, and to the agent if the quota was hit.

        A device that others have filled hits no quota. A lower limit that the script itself has set is none of our business.
        """
        session = self._session
        if session is None:
            return
        quota_bytes = session.welcome.tensor_bytes
        # What the limit counts: blocks that hold a tensor still, with what is free in them; PyTorch has given all others back by now.
        reserved_bytes: int = self._cuda.memory_reserved(device)
        needed_bytes = reserved_bytes + wanted_bytes
        # The allocator takes its limit as a part of the device's memory, so it may round off a byte and refuse what just fits.
        if needed_bytes > quota_bytes or (needed_bytes == quota_bytes and wanted_bytes <= free_bytes):
            self._refuse(report_overrun(session, reserved_bytes, wanted_bytes, "the script"))
        elif wanted_bytes > free_bytes:
            room_bytes = reserved_bytes + free_bytes
            self._refuse(
                full_message(session.welcome.gpu, room_bytes, reserved_bytes, wanted_bytes, "the script")
            )
        else:
            self._refusal = ""
            log.debug(
                "%d bytes were refused within the quota: by a limit that the script has set", wanted_bytes
            )

    def _refuse(self, sentence: str) -> None:
        """Keeps it for the error. It goes to stderr as well, because what catches the error may keep it to itself, and not through the log, of which the
        script decides what is seen."""
        self._refusal = sentence
        with suppress(Exception):  # the script has closed or replaced it
            print(sentence, file=sys.stderr, flush=True)
