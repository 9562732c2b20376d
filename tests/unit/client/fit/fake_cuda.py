"""A fake PyTorch whose CUDA streams run as late, or as early, as the waits between streams allow.

Memory is reused as by PyTorch's caching allocator: a block is free as soon as its storage is gone, whatever
is still queued on the stream that owned it. If the block was recorded on other streams, it is free once they
have done what was queued then. So a missing wait or record shows in the copied content.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any


class Stream:
    """Work in order."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []
        self.done = 0

    def add(self, work: Callable[[], None]) -> None:
        self.work.append(work)

    def run(self, until: int | None = None) -> None:
        """Runs the work queued so far, and of other streams only the work that it waits for."""
        until = len(self.work) if until is None else until
        while self.done < until:
            self.done += 1
            self.work[self.done - 1]()

    def wait_stream(self, other: Stream) -> None:
        self.wait_event(other.record_event())

    def wait_event(self, event: Event) -> None:
        self.add(lambda: event.stream.run(event.place))

    def record_event(self) -> Event:
        return Event(self, len(self.work))


class Event:
    """A point in a stream's work."""

    def __init__(self, stream: Stream, place: int) -> None:
        self.stream = stream
        self.place = place


class Block:
    """A block of memory."""

    def __init__(self, size: int, pinned: bool = False) -> None:
        self.content = b"?" * size
        self.pinned = pinned
        self.streams: list[Stream] = []
        """The streams that use it besides its owner."""
        self.until: list[Event] = []
        """After it was freed: it is in use until these events."""

    def is_free(self) -> bool:
        return all(event.stream.done >= event.place for event in self.until)


class Storage:
    """Frees its block when it is garbage-collected."""

    def __init__(self, device: Device, kind: str, block: Block) -> None:
        self.device = SimpleNamespace(type=kind)
        self.block = block
        self._owner = device
        self._cdata = id(self)

    def nbytes(self) -> int:
        return len(self.block.content)

    def __del__(self) -> None:
        if self.device.type == "cuda" and self.nbytes():
            self.block.until = [stream.record_event() for stream in self.block.streams]
            self._owner.given_back.append(self.block)


class Tensor:
    """The used part of a tensor's interface."""

    layout = "strided"
    is_quantized = False
    dtype = "uint8"
    _version = 0

    def __init__(self, device: Device, storage: Storage) -> None:
        self._owner = device
        self._storage = storage

    @property
    def device(self) -> Any:
        return self._storage.device

    @property
    def shape(self) -> tuple[int]:
        return (self.numel(),)

    def is_conj(self) -> bool:
        return False

    def is_neg(self) -> bool:
        return False

    def stride(self) -> tuple[int]:
        return (1,)

    def storage_offset(self) -> int:
        return 0

    def numel(self) -> int:
        return self._storage.nbytes()

    def untyped_storage(self) -> Storage:
        return self._storage

    def set_(self, storage: Storage, *_: Any) -> Tensor:
        self._storage = storage
        return self

    def record_stream(self, stream: Stream) -> None:
        self._storage.block.streams.append(stream)

    def copy_(self, source: Tensor, non_blocking: bool = False) -> None:
        to, from_ = self._storage.block, source._storage.block
        self._owner.current.add(lambda: setattr(to, "content", from_.content))
        if not non_blocking:
            self._owner.synchronize()
        else:
            host = to if self.device.type == "cpu" else from_
            assert host.pinned, "a copy to memory that is not pinned holds up the process"


class Device:
    """A GPU and its streams."""

    def __init__(self) -> None:
        self.main = self.current = Stream()
        self.streams = [self.main]
        self.given_back: list[Block] = []
        self.waits = 0
        """How often the process waited for the whole device."""

    def new_stream(self) -> Stream:
        self.streams.append(Stream())
        return self.streams[-1]

    @contextlib.contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    def synchronize(self) -> None:
        self.waits += 1
        for stream in self.streams:
            stream.run()

    def allocate(self, size: int) -> Storage:
        """Returns the block that was freed last, if it may be reused."""
        for block in reversed(self.given_back):
            if len(block.content) == size and block.is_free():
                self.given_back.remove(block)
                block.streams.clear()
                return Storage(self, "cuda", block)
        return Storage(self, "cuda", Block(size))

    def tensor(self, content: bytes) -> Tensor:
        """Returns the result of an operation on the computation's stream."""
        tensor = Tensor(self, self.allocate(len(content)))
        block = tensor.untyped_storage().block
        self.main.add(lambda: setattr(block, "content", content))
        return tensor

    def read(self, tensor: Tensor) -> list[bytes]:
        """Returns what an operation reads from it once the operation runs."""
        found: list[bytes] = []
        block = tensor.untyped_storage().block
        self.main.add(lambda: found.append(block.content))
        return found


class Torch:
    """The module `torch`."""

    uint8 = "uint8"
    strided = "strided"

    def __init__(self) -> None:
        device = self.device = Device()
        self.Tensor = Tensor
        self.nn = SimpleNamespace(Parameter=type("Parameter", (Tensor,), {}))
        self.cuda = SimpleNamespace(
            Stream=device.new_stream,
            stream=device.on,
            current_stream=lambda: device.current,
            synchronize=device.synchronize,
        )

    def empty(self, size: int, dtype: str, device: Any = None, pin_memory: bool = False) -> Tensor:
        if device is not None:
            assert getattr(device, "type", device) == "cuda"
            return Tensor(self.device, self.device.allocate(size))
        return Tensor(self.device, Storage(self.device, "cpu", Block(size, pin_memory)))
