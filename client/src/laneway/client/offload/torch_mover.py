"""Finds PyTorch's persistent memory, and moves it to the host and back by storages.

Whole storages are moved, each once, and restored into the same storage objects. So everything that shares a
storage stays intact: views, tied weights, the gradients in DistributedDataParallel's buckets, FSDP's flat
parameters, tensors that autograd keeps. What moves is owned by modules and optimizers: parameters, buffers,
gradients, and the optimizers' state.
"""

from __future__ import annotations

import gc
import sys
from itertools import compress
from typing import TYPE_CHECKING, Any, Optional

from laneway.client.memory.host_memory import available_bytes, trim_malloc
from laneway.client.offload.offloader import CannotMoveError
from laneway.client.torch_internals.storages import storage_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laneway.client.memory.meter import MemoryMeter


class TorchMover:
    """Moves this process's storages. Its methods are called in separate threads, in which no mode of the
    script applies."""

    simulated = False

    def __init__(self, torch: Any, meter: MemoryMeter) -> None:
        self._torch = torch
        self._meter = meter
        self._offloaded: list[tuple[Any, Any]] = []
        """The emptied storages, each with its content on the host."""
        self._held_bytes: Optional[int] = None

    def move_out(self) -> int:
        """Moves the storages of all modules and optimizers to the host; returns the bytes freed on the
        device.

        Raises:
            CannotMoveError: nothing was moved.
        """
        if _has_cuda_graphs(self._torch):
            raise CannotMoveError("it has captured CUDA graphs, which keep the addresses of its tensors")
        storages = self._movable()
        on_device = [storage for storage in storages if storage.device.type == "cuda"]
        on_host = [storage for storage in storages if storage.device.type == "cpu"]
        _check_host_memory(
            sum(_pinned_bytes(storage.nbytes()) for storage in on_device)
            + max((s.nbytes() for s in on_host), default=0)
        )
        try:
            self._move_from_device(on_device)
            for storage in on_host:
                self._empty(storage, storage.clone())
        except Exception as error:
            self.move_back()
            raise CannotMoveError(f"its memory could not be copied: {error}") from error
        self._update_held_bytes([storage for storage, _ in self._offloaded])
        return sum(copy.nbytes() for _, copy in self._offloaded)

    def move_back(self) -> None:
        """Refills the storages.

        Raises:
            CannotMoveError: the device has no free memory for some; they stay on the host.
        """
        filled = []
        read = []
        """Host copies being read by a device. With a simulated device the read is complete, so the memory can
        be reused at once."""
        try:
            while self._offloaded:
                storage, copy = self._offloaded[-1]
                storage.resize_(copy.nbytes())
                storage.copy_(copy, non_blocking=True)
                self._offloaded.pop()
                filled.append(storage)
                if storage.device.type == "cuda":
                    read.append(copy)
        except RuntimeError as error:
            raise CannotMoveError(f"the device has too little free memory: {error}") from error
        finally:
            self._synchronize(filled)
            read.clear()
            self._give_pinned_memory_back()
            trim_malloc()
            self._update_held_bytes(filled)

    def held_bytes(self) -> Optional[int]:
        """Returns the bytes that the process holds of the device."""
        return self._held_bytes

    def _move_from_device(self, storages: list[Any]) -> None:
        """Copies all storages before emptying any: the copies overlap, and a failure loses nothing."""
        self._synchronize(storages)
        copied = []
        for storage in storages:
            copy = self._torch.empty(
                storage.nbytes(), dtype=self._torch.uint8, pin_memory=True
            ).untyped_storage()
            copy.copy_(storage, non_blocking=True)
            copied.append((storage, copy))
        self._synchronize(storages)
        for storage, copy in copied:
            self._empty(storage, copy)

    def _empty(self, storage: Any, copy: Any) -> None:
        try:
            storage.resize_(0)
        except RuntimeError:
            return  # the memory belongs to something else, such as a NumPy array, and stays
        self._offloaded.append((storage, copy))

    def _movable(self) -> list[Any]:
        kinds = ("cuda", "cpu") if self.simulated else ("cuda",)
        storages = {}
        for tensor in _persistent_tensors(self._torch):
            storage = storage_of(tensor)
            if storage is not None and storage.device.type in kinds and storage.nbytes():
                storages[storage._cdata] = storage
        return [s for s in storages.values() if s.device.type == "cuda" or not s.is_shared()]

    def _give_pinned_memory_back(self) -> None:
        """Frees the pinned memory that PyTorch caches for later copies, as much as the job had on the device
        (PyTorch ≥ 2.5)."""
        empty_cache = getattr(self._torch._C, "_host_emptyCache", None)
        if empty_cache is not None and self._torch.cuda.is_initialized():
            empty_cache()

    def _update_held_bytes(self, storages: list[Any]) -> None:
        self._held_bytes = self._meter.after_move(storages)

    def _synchronize(self, storages: list[Any]) -> None:
        for index in {storage.device.index for storage in storages if storage.device.type == "cuda"}:
            self._torch.cuda.synchronize(index)


def _persistent_tensors(torch: Any) -> Iterator[Any]:
    """Yields everything that this process's modules and optimizers own, by inspecting every object, which
    takes a moment."""
    for owner in _instances((torch.nn.Module, torch.optim.Optimizer)):
        names = (
            ("_parameters", "_buffers") if isinstance(owner, torch.nn.Module) else ("state", "param_groups")
        )
        tables = [getattr(owner, name, None) for name in names]
        for tensor in _tensors_in(tables, torch.Tensor, set()):
            for part in _parts(tensor):
                yield part
                if part.is_leaf and part.grad is not None:
                    yield from _parts(part.grad)


def _instances(classes: tuple[type, ...]) -> list[Any]:
    """Returns all objects of these classes. Types are few and objects many, so each type is checked once."""
    objects = gc.get_objects()
    wanted = {kind for kind in set(map(type, objects)) if issubclass(kind, classes)}
    return list(compress(objects, map(wanted.__contains__, map(type, objects))))


def _tensors_in(value: Any, tensor_type: type, seen: set[int]) -> Iterator[Any]:
    """Yields the tensors in nested containers, including dictionary keys."""
    if isinstance(value, tensor_type):
        yield value
        return
    if id(value) in seen:
        return
    if isinstance(value, dict):
        seen.add(id(value))
        for key, item in list(value.items()):
            yield from _tensors_in(key, tensor_type, seen)
            yield from _tensors_in(item, tensor_type, seen)
    elif isinstance(value, (list, tuple, set)):
        seen.add(id(value))
        for item in list(value):
            yield from _tensors_in(item, tensor_type, seen)


def _parts(tensor: Any) -> Iterator[Any]:
    """Yields the tensor, or the tensors that a subclass such as DTensor wraps."""
    flatten = getattr(type(tensor), "__tensor_flatten__", None)
    if flatten is None:
        yield tensor
        return
    for name in flatten(tensor)[0]:
        yield from _parts(getattr(tensor, name))


def _has_cuda_graphs(torch: Any) -> bool:
    """Returns whether captured CUDA graphs hold tensor addresses: the script's own graphs, or those of
    torch.compile.

    The latter are also found by inspecting every object: PyTorch keeps them by thread, and this is a thread
    of its own.
    """
    if not torch.cuda.is_initialized():
        return False
    kinds = [torch.cuda.CUDAGraph]
    trees = sys.modules.get("torch._inductor.cudagraph_trees")
    if trees is not None:
        kinds.append(trees.CUDAGraphTreeManager)
    return bool(_instances(tuple(kinds)))


def _pinned_bytes(size_bytes: int) -> int:
    """Returns what PyTorch takes of the host for a pinned buffer: the next power of two."""
    return 1 << max(0, size_bytes - 1).bit_length()


def _check_host_memory(needed_bytes: int) -> None:
    available = available_bytes()
    if available is not None and needed_bytes > available:
        raise CannotMoveError(
            f"it needs {needed_bytes} bytes of host memory but the container has {available} left: raise its memory limit"
        )
