"""What is moved of a CUDA process, in which order, and what happens if the device or the host lacks memory.

With a fake PyTorch; integration tests move real storages on a CPU.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from laneway.client.memory.meter import NoMeter
from laneway.client.offload import torch_mover as offload_storages
from laneway.client.offload.offloader import CannotMoveError
from laneway.client.offload.torch_mover import TorchMover


class Storage:
    """A storage on some device; copies record the state in which they find it."""

    log: list[str]

    def __init__(self, content: bytes, device: str = "cuda", log: list[str] | None = None) -> None:
        self.content = content
        self.device = SimpleNamespace(type=device, index=0)
        self.log = log if log is not None else []
        self._cdata = id(self)
        self.has_memory = True

    def nbytes(self) -> int:
        return len(self.content)

    def is_shared(self) -> bool:
        return self.device.type == "cuda"

    def resize_(self, size: int) -> None:
        if size and not self.has_memory:
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
    """A captured graph."""


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


def test_everything_owned_by_modules_and_optimizers_is_moved_once_and_restored(
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


def test_host_memory_is_moved_only_for_simulated_gpus(torch: Torch, mover: TorchMover) -> None:
    storage = Storage(b"weight", "cpu")
    module = Module(weight=Tensor(storage))
    assert mover.move_out() == 0
    assert storage.content == b"weight"
    assert module is not None


def test_a_full_device_leaves_the_rest_for_later(torch: Torch, mover: TorchMover) -> None:
    first, second = Storage(b"first"), Storage(b"second")
    module = Module(first=Tensor(first), second=Tensor(second))
    mover.move_out()
    first.has_memory = second.has_memory = False
    with pytest.raises(CannotMoveError, match="the device has too little free memory"):
        mover.move_back()
    first.has_memory = second.has_memory = True
    mover.move_back()
    assert (first.content, second.content) == (b"first", b"second")
    assert module is not None


def test_a_full_host_leaves_everything_in_place(
    torch: Torch, mover: TorchMover, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(b"weight")
    module = Module(weight=Tensor(storage))
    monkeypatch.setattr(
        offload_storages, "available_bytes", lambda: 7
    )  # pinned buffers take the next power of two
    with pytest.raises(CannotMoveError, match="raise its memory limit"):
        mover.move_out()

    def fail(*_: object, **__: object) -> Tensor:
        raise RuntimeError("CUDA error: out of memory")

    monkeypatch.setattr(offload_storages, "available_bytes", lambda: None)
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


def test_graphs_of_compiled_code_are_found_in_any_thread(
    mover: TorchMover, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CUDAGraphTreeManager:
        """The compiler's graphs."""

    trees = SimpleNamespace(CUDAGraphTreeManager=CUDAGraphTreeManager)
    monkeypatch.setitem(sys.modules, "torch._inductor.cudagraph_trees", trees)  # type: ignore[arg-type]
    assert mover.move_out() == 0, "there is none yet"
    manager = CUDAGraphTreeManager()
    with pytest.raises(CannotMoveError, match="captured CUDA graphs"):
        mover.move_out()
    assert manager is not None


def test_foreign_memory_stays(torch: Torch, mover: TorchMover) -> None:
    storage = Storage(b"numpy's")

    def refuse(size: int) -> None:
        raise RuntimeError("Trying to resize storage that is not resizable")

    storage.resize_ = refuse  # type: ignore[method-assign]
    module = Module(weight=Tensor(storage))
    assert mover.move_out() == 0
    mover.move_back()
    assert storage.content == b"numpy's"
    assert module is not None


def test_tensors_without_storage_are_left_out(torch: Torch, mover: TorchMover) -> None:
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
