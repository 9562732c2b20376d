"""Keeps what autograd saves for the backward pass: by storage, each on the device or on the host.

`pack` receives each tensor that an operation saves and returns a handle; `unpack` receives the handle when
the backward pass needs the tensor. All handles of one storage share one `SavedStorage`, which lives as long
as they do. So what autograd releases is freed, on the device and on the host.

An offloaded storage may be saved again by another operation. It shares the copy only if it is known to be
unchanged; otherwise it counts as another storage. A kept tensor is the script's own, so its version is
checked as PyTorch checks it.
"""

from __future__ import annotations

import logging
import time
import weakref
from typing import TYPE_CHECKING, Any, Optional, Protocol

from laneway.client.torch_internals.storages import storage_of

if TYPE_CHECKING:
    from laneway.client.fit.host_pool import HostPool, Transfer

log = logging.getLogger("laneway.client")


class SavedStorage:
    """A storage's content, for as long as autograd may ask for it."""

    __slots__ = (
        "__weakref__",
        "copy",
        "device",
        "handles",
        "number",
        "size",
        "source",
        "storage",
        "transfer",
        "version",
    )

    def __init__(self, number: int, storage: Any, version: int) -> None:
        self.number = number
        self.size: int = storage.nbytes()
        self.device = storage.device
        self.version = version
        self.storage: Optional[Any] = storage
        """None while offloaded."""
        self.source = weakref.ref(storage)
        self.copy: Optional[Any] = None
        self.transfer: Optional[Transfer] = None
        self.handles: list[weakref.ref[Handle]] = []
        """The handles that hold the tensor itself, while it is kept."""


class Handle:
    """What autograd keeps in place of a tensor."""

    __slots__ = ("__weakref__", "dtype", "offset", "saved", "shape", "stride", "tensor", "version")

    def __init__(self, tensor: Any, saved: Optional[SavedStorage]) -> None:
        self.tensor: Optional[Any] = tensor
        self.version: int = tensor._version
        self.saved = saved
        self.dtype = tensor.dtype
        if saved is not None:
            self.shape = tensor.shape
            self.stride = tensor.stride()
            self.offset = tensor.storage_offset()


class Policy(Protocol):
    """Decides what is offloaded in one iteration."""

    def should_offload(self, saved: SavedStorage) -> bool:
        """Returns whether a storage that is saved for the first time goes to the host."""

    def prefetch_after(self, number: int) -> tuple[int, ...]:
        """Returns the storages to bring back when this one is read for the first time."""


class Recorder(Protocol):
    """Receives events."""

    def saved(self, saved: SavedStorage, position: int) -> None:
        """A storage was saved; `position` counts the tensors saved in this iteration."""

    def read(self, saved: SavedStorage) -> None:
        """The backward pass is about to read a storage for the first time."""


class SavedActivations:
    """One for each process. `pack` and `unpack` are autograd's hooks; `start` and `stop` enclose each
    iteration."""

    def __init__(self, torch: Any, host: HostPool, kind: str) -> None:
        """Starts inactive.

        Args:
            torch: the module `torch`.
            host: where storages are offloaded to.
            kind: the device type whose memory is limited: `cuda` or `cpu`.
        """
        self.host = host
        self.spent_seconds = 0.0
        """Total time in `pack`."""
        self.least_bytes = 0
        """Smaller storages are kept."""
        self.owned: dict[int, weakref.ref[Any]] = {}
        """Storages that others hold in any case: parameters and buffers."""
        self.policy: Optional[Policy] = None
        self.recorder: Optional[Recorder] = None
        self.failed = False
        """There was an internal error."""
        self.saved_count = 0
        """The number of tensors saved in this iteration."""
        self.prefetched = 0
        """Storages already on their way back when the backward pass read them, over all iterations."""
        self._torch = torch
        self.kind = kind
        self._known: dict[int, weakref.ref[SavedStorage]] = {}
        self._numbered: list[weakref.ref[SavedStorage]] = []
        self._read: set[int] = set()

    def start(self, policy: Policy, recorder: Optional[Recorder]) -> None:
        """Begins an iteration."""
        self._known.clear()
        self._numbered.clear()
        self._read.clear()
        self.saved_count = 0
        self.policy = policy
        self.recorder = recorder

    def stop(self) -> None:
        """Ends the iteration. What was saved in it can still be read."""
        self.policy = self.recorder = None
        self._known.clear()

    # --- autograd's hooks ---

    def pack(self, tensor: Any) -> Handle:
        """Takes a tensor that is saved."""
        policy = self.policy
        if policy is None:
            return Handle(tensor, None)
        try:
            return self._take(tensor, policy)
        except Exception as fault:
            log.warning(
                "internal error in the client; memory is no longer reduced: %r", fault, exc_info=fault
            )
            self.failed = True
            self.policy = None
            return Handle(tensor, None)

    def _take(self, tensor: Any, policy: Policy) -> Handle:
        began = time.perf_counter()
        storage = self._storage(tensor)
        position = self.saved_count
        self.saved_count += 1
        if storage is None:
            return Handle(tensor, None)
        saved = self._find(storage, tensor._version)
        new = saved is None
        if saved is None:
            saved = SavedStorage(len(self._numbered), storage, tensor._version)
            self._numbered.append(weakref.ref(saved))
            self._known[storage._cdata] = weakref.ref(saved)
        handle = Handle(tensor, saved)
        if self.recorder is not None:
            self.recorder.saved(saved, position)
        if new and policy.should_offload(saved):
            self.offload(saved)
        if saved.storage is None:
            handle.tensor = None
        else:
            saved.handles.append(weakref.ref(handle))
        self.spent_seconds += time.perf_counter() - began
        return handle

    def unpack(self, handle: Handle) -> Any:
        """Returns the tensor."""
        saved, tensor = handle.saved, handle.tensor
        if saved is not None and saved.number not in self._read and self._is_current(saved):
            self._read.add(saved.number)
            if self.recorder is not None:
                self.recorder.read(saved)
            if self.policy is not None:
                self._prefetch(self.policy.prefetch_after(saved.number))
        if tensor is None:
            return self._view(handle)
        if tensor._version != handle.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{tensor.type()} {list(tensor.shape)}] is at version {tensor._version}; "
                f"expected version {handle.version} instead."
            )
        return tensor

    # --- internals, and methods for policies ---

    def kept(self) -> list[SavedStorage]:
        """Returns what this iteration has saved so far and is on the device, oldest first."""
        alive = (reference() for reference in self._numbered)
        return [saved for saved in alive if saved is not None and saved.storage is not None]

    def saved_of(self, tensors: list[Any]) -> tuple[set[int], int]:
        """Returns the numbers of these tensors' storages that this iteration has saved so far, and the bytes
        of the others."""
        numbers = set()
        others: dict[int, int] = {}
        for storage in map(self._storage, tensors):
            if storage is None:
                continue
            reference = self._known.get(storage._cdata)
            saved = None if reference is None else reference()
            if saved is not None and saved.source() is storage:
                numbers.add(saved.number)
            else:
                others[storage._cdata] = storage.nbytes()
        return numbers, sum(others.values())

    def offload(self, saved: SavedStorage) -> bool:
        """Copies a storage to the host and releases it; returns False where the host lacks memory."""
        storage = saved.storage
        if storage is None or not self.host.has_capacity(saved.size):
            return storage is None
        saved.copy = self.host.offload(storage)
        saved.storage = None
        for reference in saved.handles:
            handle = reference()
            if handle is not None:
                handle.tensor = None
        saved.handles.clear()
        return True

    def _storage(self, tensor: Any) -> Any:
        """Returns the tensor's storage if it is one to handle, else None."""
        torch = self._torch
        if (
            type(tensor) not in (torch.Tensor, torch.nn.Parameter)
            or tensor.device.type != self.kind
            or tensor.layout is not torch.strided
            or tensor.is_quantized
            or tensor.is_conj()
            or tensor.is_neg()
        ):
            return None
        storage = storage_of(tensor)
        if storage is None or storage.nbytes() < self.least_bytes or not storage.nbytes():
            return None
        owner = self.owned.get(storage._cdata)
        return None if owner is not None and owner() is storage else storage

    def _find(self, storage: Any, version: int) -> Optional[SavedStorage]:
        reference = self._known.get(storage._cdata)
        saved = None if reference is None else reference()
        if saved is None or saved.size != storage.nbytes() or saved.source() is not storage:
            return None
        if saved.storage is storage:
            return saved  # kept by reference, so changes do not matter
        # The result of an operation is saved as version 0, whatever its version is.
        unchanged = version == saved.version != 0
        if unchanged or (saved.copy is not None and self.host.is_unchanged(storage, saved.copy)):
            saved.version = max(saved.version, version)
            return saved
        return None

    def _is_current(self, saved: SavedStorage) -> bool:
        return saved.number < len(self._numbered) and self._numbered[saved.number]() is saved

    def _prefetch(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            saved = self._numbered[number]() if number < len(self._numbered) else None
            if saved is not None and saved.copy is not None and saved.transfer is None:
                try:
                    saved.transfer = self.host.fetch(saved.copy, saved.device, prefetch=True)
                except RuntimeError:
                    return  # no free memory for it yet: it comes when it is read
                saved.copy = None

    def _view(self, handle: Handle) -> Any:
        saved = handle.saved
        assert saved is not None, "an offloaded tensor has a storage"
        storage = saved.storage
        if storage is None:
            if saved.transfer is not None:
                self.prefetched += 1
            transfer = saved.transfer or self.host.fetch(saved.copy, saved.device, prefetch=False)
            transfer.wait()
            storage = saved.storage = transfer.storage
            saved.copy = saved.transfer = None
        empty = self._torch.empty(0, dtype=handle.dtype, device=saved.device)
        return empty.set_(storage, handle.offset, handle.shape, handle.stride)
