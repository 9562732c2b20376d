"""PyTorch's persistent memory as storages: found, moved to the host and back.

Whole storages are moved, each once, and put back into the same storage objects. So everything that shares a storage stays as it was: views, tied weights,
the gradients in DistributedDataParallel's buckets, FSDP's flat parameters, tensors that autograd keeps. What is moved is what modules and optimizers own:
parameters, buffers, gradients, the optimizers' state.
"""

from __future__ import annotations

import gc
import sys
from itertools import compress
from typing import TYPE_CHECKING, Any, Optional

from laneway.client.host_memory import give_back, room_bytes
from laneway.client.offload import CannotMoveError
from laneway.client.tensor_storage import storage_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laneway.client.memory_meter import MemoryMeter


class TorchMover:
    """Moves this process's storages. Every method is called in a thread of its own kind: no mode of the script holds in it."""

    simulated = False

    def __init__(self, torch: Any, meter: MemoryMeter) -> None:
        self._torch = torch
        self._meter = meter
        self._away: list[tuple[Any, Any]] = []
        """Storages that are empty now, each with its content on the host."""
        self._held_bytes: Optional[int] = None

    def move_out(self) -> int:
        """Moves the storages of all modules and optimizers to the host; returns the bytes that the device has back.

        Raises:
            CannotMoveError: nothing was moved.
        """
        if _has_cuda_graphs(self._torch):
            raise CannotMoveError("it has captured CUDA graphs, which keep the addresses of its tensors")
        storages = self._movable()
        on_device = [storage for storage in storages if storage.device.type == "cuda"]
        on_host = [storage for storage in storages if storage.device.type == "cpu"]
        _check_room(
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
        self._take_note([storage for storage, _ in self._away])
        return sum(copy.nbytes() for _, copy in self._away)

    def move_back(self) -> None:
        """Fills the storages again.

        Raises:
            CannotMoveError: the device has no room for some; they are kept.
        """
        filled = []
        read = []
        """Copies on their way to a device. A simulated one has been read when the call returns: its memory serves the next storage."""
        try:
            while self._away:
                storage, copy = self._away[-1]
                storage.resize_(copy.nbytes())
                storage.copy_(copy, non_blocking=True)
                self._away.pop()
                filled.append(storage)
                if storage.device.type == "cuda":
                    read.append(copy)
        except RuntimeError as error:
            raise CannotMoveError(f"the device has no room for its memory: {error}") from error
        finally:
            self._synchronize(filled)
            read.clear()
            self._give_pinned_memory_back()
            give_back()
            self._take_note(filled)

    def held_bytes(self) -> Optional[int]:
        """What the process holds of the device now."""
        return self._held_bytes

    def _move_from_device(self, storages: list[Any]) -> None:
        """Copies all before any is emptied: the copies go on side by side, and a failure costs nothing."""
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
            return  # it is somebody else's memory, an array's of NumPy, say: it stays
        self._away.append((storage, copy))

    def _movable(self) -> list[Any]:
        kinds = ("cuda", "cpu") if self.simulated else ("cuda",)
        storages = {}
        for tensor in _persistent_tensors(self._torch):
            storage = storage_of(tensor)
            if storage is not None and storage.device.type in kinds and storage.nbytes():
                storages[storage._cdata] = storage
        return [s for s in storages.values() if s.device.type == "cuda" or not s.is_shared()]

    def _give_pinned_memory_back(self) -> None:
        """PyTorch keeps what it pinned for the next copies: as much as the job has on the device. From 2.5 on it can be told not to."""
        empty_cache = getattr(self._torch._C, "_host_emptyCache", None)
        if empty_cache is not None and self._torch.cuda.is_initialized():
            empty_cache()

    def _take_note(self, storages: list[Any]) -> None:
        self._held_bytes = self._meter.moved(storages)

    def _synchronize(self, storages: list[Any]) -> None:
        for index in {storage.device.index for storage in storages if storage.device.type == "cuda"}:
            self._torch.cuda.synchronize(index)


def _persistent_tensors(torch: Any) -> Iterator[Any]:
    """All that modules and optimizers of this process own. They are found by looking at every object, which takes a moment and misses none."""
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
    """All objects of these classes that Python knows. Types are few and objects many, so each type is asked once."""
    objects = gc.get_objects()
    wanted = {kind for kind in set(map(type, objects)) if issubclass(kind, classes)}
    return list(compress(objects, map(wanted.__contains__, map(type, objects))))


def _tensors_in(value: Any, tensor_type: type, seen: set[int]) -> Iterator[Any]:
    """The tensors in nested containers, those that are keys included."""
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
    """The tensor, or those that a subclass such as DTensor is a wrapper of."""
    flatten = getattr(type(tensor), "__tensor_flatten__", None)
    if flatten is None:
        yield tensor
        return
    for name in flatten(tensor)[0]:
        yield from _parts(getattr(tensor, name))


def _has_cuda_graphs(torch: Any) -> bool:
    """Whether addresses of tensors are kept by captured graphs: the script's own, or those of torch.compile.

    The latter are looked for among all objects, too: PyTorch keeps them by thread, and this is a thread of our own.
    """
    if not torch.cuda.is_initialized():
        return False
    kinds = [torch.cuda.CUDAGraph]
    trees = sys.modules.get("torch._inductor.cudagraph_trees")
    if trees is not None:
        kinds.append(trees.CUDAGraphTreeManager)
    return bool(_instances(tuple(kinds)))


def _pinned_bytes(size_bytes: int) -> int:
    """What PyTorch takes of the host for a pinned buffer: the next power of two."""
    return 1 << max(0, size_bytes - 1).bit_length()


def _check_room(needed_bytes: int) -> None:
    room = room_bytes()
    if room is not None and needed_bytes > room:
        raise CannotMoveError(
            f"it needs {needed_bytes} bytes of the host's memory and {room} are left to the container: raise its memory limit"
        )
