"""Host copies of storages: pinned and copied in parallel with the computation on CUDA, plain where the GPU is
simulated.

On a simulated GPU, CPU tensors stand for device memory, and the meter counts what PyTorch's operations
allocate. Host copies are made without operations, so they do not count. A storage that comes back is
allocated by one, so it counts and may be refused.
"""

from __future__ import annotations

import ctypes
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Optional, Protocol

from laneway.client.fit.liveness import Rates
from laneway.client.memory.host_memory import available_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

LARGE_BYTES: Final = 1 << 20
"""From this size on, available host memory is checked before a copy is allocated."""
PROBE_BYTES: Final = 32 << 20
ASSUMED_BYTES_PER_SECOND: Final = 2e9
"""Used until something was copied."""

_libc = ctypes.CDLL(None)
_libc.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Transfer:
    """A storage on its way back to the device."""

    def __init__(self, storage: Any, wait: Callable[[], Any]) -> None:
        self.storage = storage
        self.wait: Callable[[], Any] = wait
        """Waits until work that the caller starts next sees the content."""


class HostPool(Protocol):
    """Copies storages to the host and back."""

    def has_capacity(self, size_bytes: int) -> bool:
        """Returns whether the host has enough memory for a copy of this size."""

    def offload(self, storage: Any) -> Any:
        """Copies a storage to the host; the storage may be freed at once."""

    def fetch(self, copy: Any, device: Any, prefetch: bool) -> Transfer:
        """Copies a host copy back and drops it; `prefetch`: before it is needed."""

    def is_unchanged(self, storage: Any, copy: Any) -> bool:
        """Returns whether the storage is known to equal its copy."""

    def rates(self) -> Rates:
        """Returns the measured cost of copying."""

    def synchronize(self) -> None:
        """Waits for the device, so that time can be measured."""

    def trim(self) -> None:
        """Frees memory that is kept for later copies."""


class SimulatedHostPool:
    """For a simulated GPU. Copies to the host are synchronous; prefetches run in a thread."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._spare: dict[int, list[Any]] = {}
        self._worker: Optional[ThreadPoolExecutor] = None
        self._seconds = 0.0
        self._copied_bytes = 0

    def has_capacity(self, size_bytes: int) -> bool:
        if self._spare.get(size_bytes) or size_bytes < LARGE_BYTES:
            return True
        available = available_bytes()
        return available is None or size_bytes < available

    def offload(self, storage: Any) -> Any:
        size: int = storage.nbytes()
        spare = self._spare.get(size)
        copy = spare.pop() if spare else self._torch.UntypedStorage(size)
        began = time.perf_counter()
        ctypes.memmove(copy.data_ptr(), storage.data_ptr(), size)
        if spare is not None:  # the first use of memory costs more than the copy
            self._seconds += time.perf_counter() - began
            self._copied_bytes += size
        return copy

    def fetch(self, copy: Any, device: Any, prefetch: bool) -> Transfer:
        size: int = copy.nbytes()
        storage = self._torch.empty(size, dtype=self._torch.uint8, device=device).untyped_storage()
        to, source = storage.data_ptr(), copy.data_ptr()
        spare = self._spare.setdefault(size, [])
        if not prefetch:
            ctypes.memmove(to, source, size)
            spare.append(copy)
            return Transfer(storage, _nothing)
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, "laneway-fit")
        copied: Future[Any] = self._worker.submit(_copy, storage, copy)
        copied.add_done_callback(lambda _: spare.append(copy))
        return Transfer(storage, copied.result)

    def is_unchanged(self, storage: Any, copy: Any) -> bool:
        return bool(_libc.memcmp(storage.data_ptr(), copy.data_ptr(), copy.nbytes()) == 0)

    def rates(self) -> Rates:
        if not self._seconds:
            return Rates(ASSUMED_BYTES_PER_SECOND)
        return Rates(self._copied_bytes / self._seconds)

    def synchronize(self) -> None:
        """Does nothing: CPU operations are done when they return."""

    def trim(self) -> None:
        self._spare.clear()


def _copy(storage: Any, copy: Any) -> None:
    """Copies, and keeps both storages alive meanwhile."""
    ctypes.memmove(storage.data_ptr(), copy.data_ptr(), copy.nbytes())


class PinnedHostPool:
    """For CUDA. Copies run in separate streams; memory on either side is not reused before its copy is done."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._out = torch.cuda.Stream()
        self._in = torch.cuda.Stream()
        self._rates: Optional[Rates] = None

    def has_capacity(self, size_bytes: int) -> bool:
        available = available_bytes() if size_bytes >= LARGE_BYTES else None
        return available is None or size_bytes < available

    def offload(self, storage: Any) -> Any:
        torch = self._torch
        source = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        copy = torch.empty(storage.nbytes(), dtype=torch.uint8, pin_memory=True)
        self._out.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._out):
            copy.copy_(source, non_blocking=True)
        source.record_stream(self._out)
        return copy

    def fetch(self, copy: Any, device: Any, prefetch: bool) -> Transfer:
        torch = self._torch
        target = torch.empty(copy.numel(), dtype=torch.uint8, device=device)
        self._in.wait_stream(self._out)
        self._in.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._in):
            target.copy_(copy, non_blocking=True)
            done = self._in.record_event()
        target.record_stream(self._in)
        return Transfer(target.untyped_storage(), lambda: torch.cuda.current_stream().wait_event(done))

    def is_unchanged(self, storage: Any, copy: Any) -> bool:
        """Returns False: comparing would wait for the device."""
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

    def synchronize(self) -> None:
        self._torch.cuda.synchronize()

    def trim(self) -> None:
        """Does nothing: PyTorch itself keeps pinned memory for later copies."""


def _nothing() -> None:
    return
