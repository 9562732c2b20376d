"""Takes charge of what autograd keeps for the backward pass: by storage, each on the device or on the host.

`pack` gets each tensor that an operation saves and returns a handle, `unpack` gets the handle when the backward pass wants the tensor.
All handles of one storage share one `Saved`, which lives as long as they do: what autograd lets go of is freed, on the device and on the host.

A storage that has left may be saved again, by another operation. It shares the copy only where it is known to be unchanged; else it counts
as another one. A tensor that is kept is the script's own, so its version is checked as PyTorch checks it.
"""

from __future__ import annotations

import logging
import time
import weakref
from typing import TYPE_CHECKING, Any, Optional, Protocol

from laneway.client.tensor_storage import storage_of

if TYPE_CHECKING:
    from laneway.client.fit.host import Arrival, Host

log = logging.getLogger("laneway.client")


class Saved:
    """A storage's content, for as long as autograd may ask for it."""

    __slots__ = (
        "__weakref__",
        "arrival",
        "copy",
        "device",
        "handles",
        "number",
        "size",
        "source",
        "storage",
        "version",
    )

    def __init__(self, number: int, storage: Any, version: int) -> None:
        self.number = number
        self.size: int = storage.nbytes()
        self.device = storage.device
        self.version = version
        self.storage: Optional[Any] = storage
        """None while it is away."""
        self.source = weakref.ref(storage)
        self.copy: Optional[Any] = None
        self.arrival: Optional[Arrival] = None
        self.handles: list[weakref.ref[Handle]] = []
        """While it is kept: those that hold the tensor itself."""


class Handle:
    """What autograd keeps in place of a tensor."""

    __slots__ = ("__weakref__", "dtype", "offset", "saved", "shape", "stride", "tensor", "version")

    def __init__(self, tensor: Any, saved: Optional[Saved]) -> None:
        self.tensor: Optional[Any] = tensor
        self.version: int = tensor._version
        self.saved = saved
        self.dtype = tensor.dtype
        if saved is not None:
            self.shape = tensor.shape
            self.stride = tensor.stride()
            self.offset = tensor.storage_offset()


class Policy(Protocol):
    """Decides what leaves, in one iteration."""

    def leaves(self, saved: Saved) -> bool:
        """Whether a storage that is saved for the first time goes to the host."""

    def fetch_after(self, number: int) -> tuple[int, ...]:
        """The storages to bring back when this one is read for the first time."""


class Recorder(Protocol):
    """Is told what happens."""

    def saved(self, saved: Saved, place: int) -> None:
        """A storage was saved; `place`: the how-manieth of all that were saved in this iteration."""

    def read(self, saved: Saved) -> None:
        """The backward pass is about to read a storage for the first time."""


class Custody:
    """One a process. `pack` and `unpack` are autograd's hooks; `start` and `stop` frame each iteration."""

    def __init__(self, torch: Any, host: Host, kind: str) -> None:
        """Takes nothing yet.

        Args:
            torch: the module `torch`.
            host: where storages go.
            kind: the type of the devices whose memory is scarce: `cuda` or `cpu`.
        """
        self.host = host
        self.spent_seconds = 0.0
        """In `pack`, all in all."""
        self.least_bytes = 0
        """Smaller storages are left alone."""
        self.owned: dict[int, weakref.ref[Any]] = {}
        """Storages that others hold whatever becomes of them here: parameters, buffers."""
        self.policy: Optional[Policy] = None
        self.recorder: Optional[Recorder] = None
        self.failed = False
        """There was a fault of ours."""
        self.places = 0
        """How many tensors were saved in this iteration."""
        self.fetched_ahead = 0
        """Storages whose way back had begun when the backward pass came to read them, in all iterations."""
        self._torch = torch
        self.kind = kind
        self._known: dict[int, weakref.ref[Saved]] = {}
        self._numbered: list[weakref.ref[Saved]] = []
        self._read: set[int] = set()

    def start(self, policy: Policy, recorder: Optional[Recorder]) -> None:
        """An iteration begins."""
        self._known.clear()
        self._numbered.clear()
        self._read.clear()
        self.places = 0
        self.policy = policy
        self.recorder = recorder

    def stop(self) -> None:
        """It has ended. What was saved in it can still be read."""
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
            log.warning("a fault in the client, memory is no longer saved: %r", fault, exc_info=fault)
            self.failed = True
            self.policy = None
            return Handle(tensor, None)

    def _take(self, tensor: Any, policy: Policy) -> Handle:
        began = time.perf_counter()
        storage = self._storage(tensor)
        place = self.places
        self.places += 1
        if storage is None:
            return Handle(tensor, None)
        saved = self._find(storage, tensor._version)
        new = saved is None
        if saved is None:
            saved = Saved(len(self._numbered), storage, tensor._version)
            self._numbered.append(weakref.ref(saved))
            self._known[storage._cdata] = weakref.ref(saved)
        handle = Handle(tensor, saved)
        if self.recorder is not None:
            self.recorder.saved(saved, place)
        if new and policy.leaves(saved):
            self.send(saved)
        if saved.storage is None:
            handle.tensor = None
        else:
            saved.handles.append(weakref.ref(handle))
        self.spent_seconds += time.perf_counter() - began
        return handle

    def unpack(self, handle: Handle) -> Any:
        """Returns the tensor."""
        saved, tensor = handle.saved, handle.tensor
        if saved is not None and saved.number not in self._read and self._is_of_now(saved):
            self._read.add(saved.number)
            if self.recorder is not None:
                self.recorder.read(saved)
            if self.policy is not None:
                self._fetch(self.policy.fetch_after(saved.number))
        if tensor is None:
            return self._view(handle)
        if tensor._version != handle.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{tensor.type()} {list(tensor.shape)}] is at version {tensor._version}; "
                f"expected version {handle.version} instead."
            )
        return tensor

    # --- within, and for policies ---

    def kept(self) -> list[Saved]:
        """What this iteration has saved so far and is on the device, the first first."""
        alive = (reference() for reference in self._numbered)
        return [saved for saved in alive if saved is not None and saved.storage is not None]

    def saved_of(self, tensors: list[Any]) -> tuple[set[int], int]:
        """Of the storages of some tensors: the numbers of those that this iteration has saved so far, and the bytes of the others."""
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

    def send(self, saved: Saved) -> bool:
        """Copies a storage to the host and lets go of it; False where the host has no room."""
        storage = saved.storage
        if storage is None or not self.host.has_room(saved.size):
            return storage is None
        saved.copy = self.host.send(storage)
        saved.storage = None
        for reference in saved.handles:
            handle = reference()
            if handle is not None:
                handle.tensor = None
        saved.handles.clear()
        return True

    def _storage(self, tensor: Any) -> Any:
        """Its storage, if that is one to take charge of."""
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

    def _find(self, storage: Any, version: int) -> Optional[Saved]:
        reference = self._known.get(storage._cdata)
        saved = None if reference is None else reference()
        if saved is None or saved.size != storage.nbytes() or saved.source() is not storage:
            return None
        if saved.storage is storage:
            return saved  # kept: by reference, whatever becomes of it
        # A result of an operation comes with version 0, whatever its version is.
        unchanged = version == saved.version != 0
        if unchanged or (saved.copy is not None and self.host.same(storage, saved.copy)):
            saved.version = max(saved.version, version)
            return saved
        return None

    def _is_of_now(self, saved: Saved) -> bool:
        return saved.number < len(self._numbered) and self._numbered[saved.number]() is saved

    def _fetch(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            saved = self._numbered[number]() if number < len(self._numbered) else None
            if saved is not None and saved.copy is not None and saved.arrival is None:
                try:
                    saved.arrival = self.host.bring(saved.copy, saved.device, ahead=True)
                except RuntimeError:
                    return  # no room for it yet: it comes when it is read
                saved.copy = None

    def _view(self, handle: Handle) -> Any:
        saved = handle.saved
        assert saved is not None, "only what has a storage of its own leaves"
        storage = saved.storage
        if storage is None:
            if saved.arrival is not None:
                self.fetched_ahead += 1
            arrival = saved.arrival or self.host.bring(saved.copy, saved.device, ahead=False)
            arrival.wait()
            storage = saved.storage = arrival.storage
            saved.copy = saved.arrival = None
        empty = self._torch.empty(0, dtype=handle.dtype, device=saved.device)
        return empty.set_(storage, handle.offset, handle.shape, handle.stride)
