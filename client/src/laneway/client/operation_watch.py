"""Sees every PyTorch operation of a thread, what it gives and what it takes: a dispatch mode, put onto the thread's stack of modes and taken off again.

Autograd's backward pass is seen as well: on a CPU it runs in the thread that calls it. What an operation needs for itself while it runs is not seen.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from laneway.client.tensor_storage import storage_of

if TYPE_CHECKING:
    from collections.abc import Callable

GIVES_ANOTHER_STORAGE: Final = frozenset(
    # These return an alias of their argument as far as their schema tells, and yet bring memory that was not seen before.
    ("aten::lift_fresh", "aten::resize_", "aten::resize_as_", "aten::set_", "aten::_resize_output_")
)

NOWHERE: Final = (False, False)


class OperationWatch:
    """Of one thread at a time."""

    def __init__(
        self, torch: Any, book: Callable[[Any, Any], None], is_booked: Callable[[Any], bool]
    ) -> None:
        """Watches nothing yet.

        Args:
            torch: the module `torch`.
            book: called with each storage that may be new or of another size, or None, and with what brought it.
            is_booked: whether a storage is; others are booked when they are used: NumPy's memory, say, or another thread's.
        """
        self._torch = torch
        self._book = book
        self._is_booked = is_booked
        self._mode: Any = None
        self._resize: Any = None
        self._thread = 0
        self._put_on_within = NOWHERE
        self._backward = getattr(torch._C, "_current_graph_task_id", _no_backward)

    @property
    def on(self) -> bool:
        """This thread is watched."""
        return self._thread == threading.get_ident()

    def put_on(self) -> bool:
        """Watches this thread from now on, between two operations of it; returns whether it does."""
        if self.on:
            if self._put_on_within in (NOWHERE, self._within()):
                return True
            self._put_off()  # what it was put on within has ended, and with it the watching
        if self._torch._C._len_torch_dispatch_stack():
            if self._is_on_top():  # it was left on when another thread began to train
                self._thread = threading.get_ident()
            # Else the script is in a `with` block of such a mode, and would leave ours instead of its own.
            return self.on
        if self._mode is None:
            base = self._torch.utils._python_dispatch.TorchDispatchMode
            self._mode = type("LanewayMemory", (base,), {"__torch_dispatch__": self._dispatch()})()
            self._resize = self._resizing()
        self._mode.__enter__()
        self._put_on_within = self._within()
        self._torch.UntypedStorage.resize_ = self._resize
        self._thread = threading.get_ident()
        return True

    def take_off(self) -> bool:
        """Watches it no longer; False where modes of the script lie above, and it has to go on."""
        if not self.on:
            return True
        if not self._is_on_top() or self._within() not in (NOWHERE, self._put_on_within):
            return False
        self._put_off()
        return True

    def _put_off(self) -> None:
        if self._is_on_top():
            self._mode.__exit__(None, None, None)
        if self._torch.UntypedStorage.resize_ is self._resize:
            del self._torch.UntypedStorage.resize_  # what it inherits is there again
        self._thread = 0

    def _within(self) -> tuple[bool, bool]:
        """(in inference mode, in a backward pass): at the end of these PyTorch puts back half of what it knew of modes at their beginning.

        So a mode that was put on outside must not be taken off inside: PyTorch would look for it on an empty stack.
        """
        return self._torch.is_inference_mode_enabled(), self._backward() != -1

    def _is_on_top(self) -> bool:
        depth = self._torch._C._len_torch_dispatch_stack()
        return bool(depth) and self._torch._C._get_dispatch_stack_at(depth - 1) is self._mode

    def _dispatch(self) -> Any:
        book, is_booked = self._book, self._is_booked
        # No subclasses: a fake tensor, say, has no memory.
        tensor_type = self._torch.Tensor
        own_types = frozenset((tensor_type, self._torch.nn.Parameter))
        known: dict[int, tuple[Any, bool]] = {}  # by address, with the operation itself: its own hash is slow

        def use(tensor: Any, func: Any) -> None:
            storage = storage_of(tensor) if tensor.is_cpu else None
            if storage is not None and not is_booked(storage):
                book(storage, func)

        def __torch_dispatch__(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: N807
            result = func(*args, **kwargs) if kwargs else func(*args)
            kind = known.get(id(func))
            if kind is None:
                kind = known[id(func)] = (func, _brings_memory(func))
            for item in args:
                if type(item) in own_types:
                    use(item, func)
                elif isinstance(item, (list, tuple)):
                    for each in item:
                        if type(each) in own_types:
                            use(each, func)
            if kind[1]:
                if type(result) is tensor_type:
                    if result.is_cpu:
                        book(storage_of(result), func)
                elif isinstance(result, (tuple, list)):
                    for item in result:
                        if (
                            type(item) is tensor_type and item.is_cpu
                        ):  # no subclass: a fake tensor, say, has no memory
                            book(storage_of(item), func)
            return result

        return __torch_dispatch__

    def _resizing(self) -> Any:
        """A storage's own way to another size, which is no operation: FSDP's."""
        original = self._torch._C.StorageBase.resize_

        def resize_(storage: Any, size: int) -> Any:
            before = storage.nbytes()
            result = original(storage, size)
            if storage.device.type == "cpu" and self.on:
                try:
                    self._book(storage, "resize_")
                except BaseException:
                    original(storage, before)
                    raise
            return result

        return resize_


def _no_backward() -> int:
    return -1


def _brings_memory(func: Any) -> bool:
    """Whether an operation can return memory that was not there before: a result that is no alias of an argument, or one that is made to fit."""
    schema = getattr(func, "_schema", None)
    if schema is None or schema.name in GIVES_ANOTHER_STORAGE:
        return True
    if any(argument.is_out for argument in schema.arguments):
        return True
    return any(result.alias_info is None and "Tensor" in str(result.type) for result in schema.returns)
