"""The memory of a real GPU: PyTorch's caching allocator measures it and enforces the limit (per-process
memory fraction)."""

from __future__ import annotations

import logging
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.memory.out_of_memory import out_of_memory_error, report_device_full, report_overrun
from laneway.client.memory.peak_statistics import PeakStatistics

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.session.session import Session

log = logging.getLogger("laneway.client")

ALWAYS_MEASURED: Final = 10
"""The first iterations are all measured. Later ones are sampled, because reading the allocator's statistics
costs some 100 µs."""
MEASURE_SECONDS: Final = 0.5
ALLOCATOR_MESSAGE: Final = "out of memory. Tried to allocate"
"""Part of the message of PyTorch's allocator, but not of errors that scripts raise themselves."""


class CudaMeter:
    """Measures the current device. Does not touch CUDA before the script has initialised it."""

    def __init__(self, torch: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._torch = torch
        self._cuda = torch.cuda
        self._clock = clock
        self._session: Optional[Session] = None
        self._device: Optional[int] = None
        """The training thread's device; other threads may have another current device."""
        self._applied_limit: Optional[tuple[int, int]] = None
        """(device, bytes) of the limit that was set last."""
        self._observer_attached = False
        self._measured = 0
        self._measuring = False
        self._next_seconds = 0.0
        self._capturing = False
        """The script captures a CUDA graph. Synchronizing or freeing memory would break the capture."""
        self._peaks: Optional[PeakStatistics] = None
        """None until the first measured iteration."""
        self._highest_bytes = 0
        """The most held in this iteration, up to the last sample."""
        self._refusal = ""
        """Text to append to the error that the allocator is about to raise."""

    def attach(self, session: Session) -> None:
        """Enforces this session's quota once the script has initialised CUDA."""
        self._session = session
        self._cuda._lazy_call(self._on_cuda_init)

    def begin(self) -> None:
        """Resets the peak if this iteration will be measured."""
        if self._session is None or not self._cuda.is_initialized():
            return
        self._capturing = self._cuda.is_current_stream_capturing()
        self._measuring = not self._capturing and (
            self._measured < ALWAYS_MEASURED or self._clock() >= self._next_seconds
        )
        self._highest_bytes = 0
        if self._measuring:
            self._device = self._cuda.current_device()
            self._apply_quota()
            self._restart_peak()

    def observe_inputs(self, inputs: tuple[Any, ...]) -> None:
        """Does nothing: the allocator sees the results."""

    def trace(self) -> None:
        """Does nothing: the allocator's statistics are always current."""

    def end(self) -> Optional[tuple[int, int]]:
        """Returns (bytes allocated, most since the last measured iteration began), or None."""
        if not self._measuring:
            return None
        self._measuring = False
        self._measured += 1
        self._next_seconds = self._clock() + MEASURE_SECONDS
        held_bytes, peak_bytes = self._restart_peak()
        return held_bytes, max(self._highest_bytes, peak_bytes)

    def sample(self) -> tuple[int, int]:
        """Returns (bytes allocated, most since the last sample). Costs as much as reading the allocator's
        statistics."""
        held_bytes, peak_bytes = self._restart_peak()
        self._highest_bytes = max(self._highest_bytes, peak_bytes)
        return held_bytes, peak_bytes

    def after_move(self, storages: list[Any]) -> Optional[int]:
        """Frees the blocks of emptied storages."""
        if not self._cuda.is_initialized():
            return None
        self._cuda.empty_cache()
        held_bytes: int = self._cuda.memory_allocated()
        return held_bytes

    def prepare_release(self) -> None:
        """Waits for this process's kernels, which would otherwise compute in the next job's turn: turns are
        charged by the clock."""
        if self._cuda.is_initialized() and not self._capturing:
            self._cuda.synchronize(self._device)

    def free_memory(self) -> None:
        """Frees cached blocks for the next job of the lane."""
        if self._cuda.is_initialized() and not self._capturing:
            self._cuda.empty_cache()

    def _restart_peak(self) -> tuple[int, int]:
        """Begins a new peak; returns (bytes allocated, most since the last peak began)."""
        if self._peaks is None:
            self._peaks = PeakStatistics(self._torch._C)
        device = self._cuda.current_device() if self._device is None else self._device
        return self._peaks.restart(device)

    def _on_cuda_init(self) -> None:
        """Applies the quota once CUDA is initialised.

        With several devices visible, that waits for the first iteration to show which one is used: setting a
        limit creates a context of some hundred MB on the device.
        """
        if self._device is not None or self._cuda.device_count() == 1:
            self._apply_quota()

    def _apply_quota(self) -> None:
        """Limits PyTorch's allocator, where the allocator chosen by the script supports it.

        Never raises: PyTorch calls it during CUDA's initialisation and would pass the exception on.
        """
        try:
            self._limit_allocator()
        except Exception as error:
            log.warning(
                "cannot limit PyTorch's allocator; only the node's watchdog enforces the quota: %s", error
            )

    def _limit_allocator(self) -> None:
        session = self._session
        if session is None:
            return
        device = self._cuda.current_device() if self._device is None else self._device
        limit = (device, session.settings.tensor_bytes)
        if limit == self._applied_limit:
            return
        self._applied_limit = limit
        # The fraction refers to this total. For a client of MPS, it is the client's own limit, unlike the
        # device properties.
        _, total_bytes = self._cuda.mem_get_info(device)
        self._cuda.set_per_process_memory_fraction(min(1.0, limit[1] / total_bytes), device)
        attach_observer = getattr(self._torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach_observer is not None and not self._observer_attached:
            attach_observer(self._out_of_memory)
            self._observer_attached = True
            self._extend_errors(out_of_memory_error(self._torch))

    def _extend_errors(self, kind: Any) -> None:
        """Appends the reason for a refusal to PyTorch's errors of this class.

        The allocator is C++ and backward passes run in other threads, so no hook sees the error on its way to
        the script; only its construction passes through Python. The text stays one string on one line:
        libraries search the only argument for PyTorch's words (Accelerate and Lightning, before they try a
        smaller batch), and a container's termination message is its last log line.
        """
        initialise = kind.__init__

        def initialise_with_refusal(error: BaseException, *args: Any) -> None:
            initialise(error, *args)
            if self._refusal and len(args) == 1 and ALLOCATOR_MESSAGE in str(args[0]):
                refusal, self._refusal = self._refusal, ""
                error.args = (f"{args[0]} {refusal}",)

        kind.__init__ = initialise_with_refusal

    def _out_of_memory(self, device: int, wanted_bytes: int, allowed_bytes: int, free_bytes: int) -> None:
        """Explains PyTorch's coming OutOfMemoryError to the script and the agent.

        On a device that others have filled, the quota is not exceeded. A lower limit set by the script itself
        is ignored.
        """
        session = self._session
        if session is None:
            return
        quota_bytes = session.settings.tensor_bytes
        # The limit counts blocks that still hold tensors, with their free parts; PyTorch has freed all other
        # blocks by now.
        reserved_bytes: int = self._cuda.memory_reserved(device)
        needed_bytes = reserved_bytes + wanted_bytes
        # The allocator's limit is a fraction of the device's memory, so it may round off a byte and refuse an
        # exact fit.
        if needed_bytes > quota_bytes or (needed_bytes == quota_bytes and wanted_bytes <= free_bytes):
            self._announce_refusal(report_overrun(session, reserved_bytes, wanted_bytes, "the script"))
        elif wanted_bytes > free_bytes:
            capacity_bytes = reserved_bytes + free_bytes
            self._announce_refusal(
                report_device_full(session, capacity_bytes, reserved_bytes, wanted_bytes, "the script")
            )
        else:
            self._refusal = ""
            log.debug("%d bytes were refused within the quota, by a limit of the script", wanted_bytes)

    def _announce_refusal(self, sentence: str) -> None:
        """Keeps the text for the error and prints it to stderr, because the code that catches the error may
        not show it.

        The log would not do: the script decides which messages are shown.
        """
        self._refusal = sentence
        with suppress(Exception):  # the script has closed or replaced stderr
            print(sentence, file=sys.stderr, flush=True)
