"""The memory of a real GPU: PyTorch's caching allocator measures, and keeps the limit (its per-process memory fraction)."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.out_of_memory import report_overrun

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.session import Session

log = logging.getLogger("laneway.client")

ALWAYS_MEASURED: Final = 10
"""The first iterations are all measured; later ones now and then, because the allocator's statistics cost some 100 µs to read."""
MEASURE_SECONDS: Final = 0.5


class CudaMeter:
    """Measures the current device. Touches nothing before the script itself has initialised CUDA."""

    def __init__(self, torch: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._torch = torch
        self._cuda = torch.cuda
        self._clock = clock
        self._session: Optional[Session] = None
        self._observes = False
        self._measured = 0
        self._measuring = False
        self._next_seconds = 0.0
        self._highest_bytes = 0
        """The most in the iteration that goes on, up to the last look."""

    def attach(self, session: Session) -> None:
        """Sets the memory fraction now, or when the script initialises CUDA."""
        self._session = session
        self._cuda._lazy_call(self._hold_to_quota)

    def begin(self) -> None:
        """Starts a new peak where this iteration is to be measured."""
        if self._session is None or not self._cuda.is_initialized():
            return
        self._measuring = self._measured < ALWAYS_MEASURED or self._clock() >= self._next_seconds
        self._highest_bytes = 0
        if self._measuring:
            self._cuda.reset_peak_memory_stats()

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
        if self._cuda.is_initialized():
            self._cuda.synchronize()
            self._cuda.empty_cache()

    def _hold_to_quota(self) -> None:
        session = self._session
        if session is None:
            return
        total_bytes = self._cuda.get_device_properties(self._cuda.current_device()).total_memory
        self._cuda.set_per_process_memory_fraction(min(1.0, session.welcome.tensor_bytes / total_bytes))
        attach_observer = getattr(self._torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach_observer is not None and not self._observes:
            attach_observer(self._out_of_memory)
            self._observes = True

    def _out_of_memory(self, device: int, wanted_bytes: int, allowed_bytes: int, free_bytes: int) -> None:
        """PyTorch is about to raise its OutOfMemoryError, which names the fraction; ours, in bytes, goes to stderr and to the agent."""
        session = self._session
        if session is not None:
            log.error(
                "%s", report_overrun(session, self._cuda.memory_allocated(), wanted_bytes, "the script")
            )
