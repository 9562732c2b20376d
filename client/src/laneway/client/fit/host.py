"""Copies of storages on the host: pinned and copied beside the computation on CUDA, plain where the GPU is simulated.

On a simulated GPU tensors of the CPU stand for the device's memory, and the meter counts what PyTorch's operations allocate. A host copy is made
without any operation, so it does not count; what comes back is allocated by one, so it does, and may be refused.
"""

from __future__ import annotations

import ctypes
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Optional, Protocol

from laneway.client.fit.liveness import Rates
from laneway.client.host_memory import room_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE_BYTES: Final = 1 << 20
"""The host is asked whether it has room before a copy of this size or larger is allocated."""
PROBE_BYTES: Final = 32 << 20
ASSUMED_BYTES_PER_SECOND: Final = 2e9
"""Until something was copied."""

_libc = ctypes.CDLL(None)
_libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Arrival:
    """A storage that comes back."""

    def __init__(self, storage: Any, wait: Callable[[], Any]) -> None:
        self.storage = storage
        self.wait: Callable[[], Any] = wait
        """Returns once work that the caller starts next finds the content."""


class Host(Protocol):
    """Copies to the host and back."""

    def has_room(self, size_bytes: int) -> bool:
        """Whether a copy of this size may be made."""

    def send(self, storage: Any) -> Any:
        """Copies a storage to the host; it may be let go of at once."""

    def bring(self, copy: Any, device: Any, ahead: bool) -> Arrival:
        """Brings a copy back, and lets go of it; `ahead`: before it is needed."""

    def same(self, storage: Any, copy: Any) -> bool:
        """Whether the storage is known to be as it was when it was copied."""

    def rates(self) -> Rates:
        """What copying costs, as measured."""

    def settle(self) -> None:
        """Waits for the device, so that a clock can be read."""

    def trim(self) -> None:
        """Gives memory back that is kept for the next copies."""


class SimulatedHost:
    """For a simulated GPU. Storages leave while the caller waits, and come back ahead of time in a thread of their own."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._spare: dict[int, list[Any]] = {}
        self._worker: Optional[ThreadPoolExecutor] = None
        self._seconds = 0.0
        self._copied_bytes = 0

    def has_room(self, size_bytes: int) -> bool:
        if self._spare.get(size_bytes) or size_bytes < LARGE_BYTES:
            return True
        room = room_bytes()
        return room is None or size_bytes < room

    def send(self, storage: Any) -> Any:
        size: int = storage.nbytes()
        spare = self._spare.get(size)
        copy = spare.pop() if spare else self._torch.UntypedStorage(size)
        began = time.perf_counter()
        ctypes.memmove(copy.data_ptr(), storage.data_ptr(), size)
        if spare is not None:  # the first use of memory costs more than the copy
            self._seconds += time.perf_counter() - began
            self._copied_bytes += size
        return copy

    def bring(self, copy: Any, device: Any, ahead: bool) -> Arrival:
        size: int = copy.nbytes()
        storage = self._torch.empty(size, dtype=self._torch.uint8, device=device).untyped_storage()
        to, source = storage.data_ptr(), copy.data_ptr()
        spare = self._spare.setdefault(size, [])
        if not ahead:
            ctypes.memmove(to, source, size)
            spare.append(copy)
            return Arrival(storage, _nothing)
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, "laneway-fit")
        copied: Future[Any] = self._worker.submit(_copy, storage, copy)
        copied.add_done_callback(lambda _: spare.append(copy))
        return Arrival(storage, copied.result)

    def same(self, storage: Any, copy: Any) -> bool:
        return bool(_libc.memcmp(storage.data_ptr(), copy.data_ptr(), copy.nbytes()) == 0)

    def rates(self) -> Rates:
        if not self._seconds:
            return Rates(ASSUMED_BYTES_PER_SECOND)
        return Rates(self._copied_bytes / self._seconds)

    def settle(self) -> None:
        """A CPU has done its work when the call returns."""

    def trim(self) -> None:
        self._spare.clear()


def _copy(storage: Any, copy: Any) -> None:
    """Holds on to both while it copies."""
    ctypes.memmove(storage.data_ptr(), copy.data_ptr(), copy.nbytes())


class PinnedHost:
    """For CUDA: copies go through streams of their own. A copy's memory on either side is not used again before it is done."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._out = torch.cuda.Stream()
        self._in = torch.cuda.Stream()
        self._rates: Optional[Rates] = None

    def has_room(self, size_bytes: int) -> bool:
        room = room_bytes() if size_bytes >= LARGE_BYTES else None
        return room is None or size_bytes < room

    def send(self, storage: Any) -> Any:
        torch = self._torch
        source = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        copy = torch.empty(storage.nbytes(), dtype=torch.uint8, pin_memory=True)
        self._out.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._out):
            copy.copy_(source, non_blocking=True)
        source.record_stream(self._out)
        return copy

    def bring(self, copy: Any, device: Any, ahead: bool) -> Arrival:
        torch = self._torch
        target = torch.empty(copy.numel(), dtype=torch.uint8, device=device)
        self._in.wait_stream(self._out)
        self._in.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._in):
            target.copy_(copy, non_blocking=True)
            done = self._in.record_event()
        target.record_stream(self._in)
        return Arrival(target.untyped_storage(), lambda: torch.cuda.current_stream().wait_event(done))

    def same(self, storage: Any, copy: Any) -> bool:
        """Not known without waiting for the device."""
        return False

    def rates(self) -> Rates:
        if self._rates is None:
            torch = self._torch
            there = torch.empty(PROBE_BYTES, dtype=torch.uint8, device="cuda")
            here = torch.empty(PROBE_BYTES, dtype=torch.uint8, pin_memory=True)
            here.copy_(there)
            torch.cuda.synchronize()
            began = time.perf_counter()
            here.copy_(there)
            torch.cuda.synchronize()
            self._rates = Rates(PROBE_BYTES / (time.perf_counter() - began), overlaps=True)
        return self._rates

    def settle(self) -> None:
        self._torch.cuda.synchronize()

    def trim(self) -> None:
        """PyTorch itself keeps pinned memory for the next copies."""


def _nothing() -> None:
    return
