"""What is moved of a CUDA process, in which order, and what happens where the device or the host has no room. On a PyTorch of the test's own making:
real storages on a CPU are moved in the integration tests."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from laneway.client import offload_storages
from laneway.client.memory_meter import NoMeter
from laneway.client.offload import CannotMoveError
from laneway.client.offload_storages import TorchMover


class Storage:
    """A storage on some device; copies note in which state they found things."""

    log: list[str]

    def __init__(self, content: bytes, device: str = "cuda", log: list[str] | None = None) -> None:
        self.content = content
        self.device = SimpleNamespace(type=device, index=0)
        self.log = log if log is not None else []
        self._cdata = id(self)
        self.room = True

    def nbytes(self) -> int:
        return len(self.content)

    def is_shared(self) -> bool:
        return self.device.type == "cuda"

    def resize_(self, size: int) -> None:
        if size and not self.room:
            raise RuntimeError("CUDA out of memory")
        self.log.append(f"resize to {size}")
        self.content = b"\0" * size

    def copy_(self, other: Storage, non_blocking: bool) -> None:
        self.log.append(f"copy {len(other.content)}")
        self.content = other.content


class Tensor:
    is_leaf = True

    def __init__(self, storage: Storage, grad: Tensor | None = None) -> None:
        self.storage = storage
        self.grad = grad

    def untyped_storage(self) -> Storage:
        return self.storage


class Module:
    def __init__(self, **parameters: Tensor) -> None:
        self._parameters = parameters
        self._buffers: dict[str, Tensor] = {}


class Optimizer:
    def __init__(self, state: dict[Any, Any]) -> None:
        self.state = state
        self.param_groups: list[dict[str, Any]] = []


class CUDAGraph:
    """One that was captured."""


class Torch:
    uint8 = "uint8"

    def __init__(self) -> None:
        self.log: list[str] = []
        self.Tensor = Tensor
        self.nn = SimpleNamespace(Module=Module)
        self.optim = SimpleNamespace(Optimizer=Optimizer)
        self.cuda = SimpleNamespace(
            is_initialized=lambda: True,
            device_count=lambda: 1,
            CUDAGraph=CUDAGraph,
            synchronize=lambda index: self.log.append("synchronize"),
        )
        self._C = SimpleNamespace(_host_emptyCache=lambda: self.log.append("pinned memory given back"))

    def empty(self, size: int, dtype: str, pin_memory: bool) -> Tensor:
        assert pin_memory
        return Tensor(Storage(b"\0" * size, "cpu", self.log))


@pytest.fixture
def torch() -> Torch:
    return Torch()


@pytest.fixture
def mover(torch: Torch) -> TorchMover:
    return TorchMover(torch, NoMeter())


def test_all_that_modules_and_optimizers_own_is_moved_once_and_comes_back(
    torch: Torch, mover: TorchMover
) -> None:
    weight, grad, moment, buffer = (
        Storage(text, log=torch.log) for text in (b"weight", b"grad", b"moment", b"buf")
    )
    parameter = Tensor(weight, grad=Tensor(grad))
    module, tied = Module(weight=parameter), Module(head=Tensor(weight))
    tied._buffers["running"] = Tensor(buffer)
    optimizer = Optimizer({parameter: {"step": 3, "history": [Tensor(moment), (Tensor(moment),)]}})

    assert mover.move_out() == 6 + 4 + 6 + 3
    assert weight.nbytes() == grad.nbytes() == moment.nbytes() == buffer.nbytes() == 0
    last_copy = max(index for index, line in enumerate(torch.log) if line.startswith("copy"))
    first_resize = torch.log.index("resize to 0")
    assert last_copy < torch.log.index("synchronize", last_copy) < first_resize, (
        "emptied once all copies are done"
    )

    mover.move_back()
    assert [storage.content for storage in (weight, grad, moment, buffer)] == [
        b"weight",
        b"grad",
        b"moment",
        b"buf",
    ]
    assert torch.log[-2:] == ["synchronize", "pinned memory given back"]
    assert (module, tied, optimizer) is not None


def test_memory_of_the_host_is_moved_for_simulated_gpus_only(torch: Torch, mover: TorchMover) -> None:
    storage = Storage(b"weight", "cpu")
    module = Module(weight=Tensor(storage))
    assert mover.move_out() == 0
    assert storage.content == b"weight"
    assert module is not None


def test_a_device_without_room_keeps_the_rest_for_later(torch: Torch, mover: TorchMover) -> None:
    first, second = Storage(b"first"), Storage(b"second")
    module = Module(first=Tensor(first), second=Tensor(second))
    mover.move_out()
    first.room = second.room = False
    with pytest.raises(CannotMoveError, match="the device has no room"):
        mover.move_back()
    first.room = second.room = True
    mover.move_back()
    assert (first.content, second.content) == (b"first", b"second")
    assert module is not None


def test_a_host_without_room_leaves_everything_where_it_was(
    torch: Torch, mover: TorchMover, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(b"weight")
    module = Module(weight=Tensor(storage))
    monkeypatch.setattr(
        offload_storages, "room_bytes", lambda: 7
    )  # pinned buffers take the next power of two
    with pytest.raises(CannotMoveError, match="raise its memory limit"):
        mover.move_out()

    def fail(*_: object, **__: object) -> Tensor:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(offload_storages, "room_bytes", lambda: None)
    torch.empty = fail  # type: ignore[method-assign]
    with pytest.raises(CannotMoveError, match="could not be copied"):
        mover.move_out()
    assert storage.content == b"weight"
    assert module is not None


def test_captured_graphs_keep_addresses_so_nothing_moves(torch: Torch, mover: TorchMover) -> None:
    graph = CUDAGraph()
    with pytest.raises(CannotMoveError, match="captured CUDA graphs"):
        mover.move_out()
    assert graph is not None


def test_graphs_of_compiled_code_are_found_in_whatever_thread_they_are_kept(
    mover: TorchMover, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CUDAGraphTreeManager:
        """Of the compiler."""

    trees = SimpleNamespace(CUDAGraphTreeManager=CUDAGraphTreeManager)
    monkeypatch.setitem(sys.modules, "torch._inductor.cudagraph_trees", trees)  # type: ignore[arg-type]
    assert mover.move_out() == 0, "there is none yet"
    manager = CUDAGraphTreeManager()
    with pytest.raises(CannotMoveError, match="captured CUDA graphs"):
        mover.move_out()
    assert manager is not None


def test_what_is_somebody_elses_memory_stays(torch: Torch, mover: TorchMover) -> None:
    storage = Storage(b"numpy's")

    def refuse(size: int) -> None:
        raise RuntimeError("Trying to resize storage that is not resizable")

    storage.resize_ = refuse  # type: ignore[method-assign]
    module = Module(weight=Tensor(storage))
    assert mover.move_out() == 0
    mover.move_back()
    assert storage.content == b"numpy's"
    assert module is not None


def test_tensors_without_a_storage_of_their_own_are_left_out(torch: Torch, mover: TorchMover) -> None:
    class Sparse(Tensor):
        def untyped_storage(self) -> Storage:
            raise NotImplementedError

    class Wrapper(Tensor):
        def __init__(self, inner: Tensor) -> None:
            self.inner = inner

        def __tensor_flatten__(self) -> tuple[list[str], None]:
            return ["inner"], None

    storage = Storage(b"local shard")
    module = Module(sparse=Sparse(storage), sharded=Wrapper(Tensor(storage)))
    assert mover.move_out() == 11
    mover.move_back()
    assert storage.content == b"local shard"
    assert module is not None
