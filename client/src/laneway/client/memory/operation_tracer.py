"""Traces the inputs and results of every PyTorch operation of a thread, by a dispatch mode on the thread's
stack of modes.

Autograd's backward pass is traced as well: on a CPU it runs in the calling thread. Temporary memory inside an
operation is not seen.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from laneway.client.torch_internals.storages import storage_of

if TYPE_CHECKING:
    from collections.abc import Callable

RETURNS_NEW_STORAGE: Final = frozenset(
    # By their schema these return an alias of their argument; yet they may bring new memory.
    ("aten::lift_fresh", "aten::resize_", "aten::resize_as_", "aten::set_", "aten::_resize_output_")
)

NO_CONTEXT: Final = (False, False)


class OperationTracer:
    """Traces one thread at a time."""

    def __init__(
        self, torch: Any, record: Callable[[Any, Any], None], is_recorded: Callable[[Any], bool]
    ) -> None:
        """Starts inactive.

        Args:
            torch: the module `torch`.
            record: called with each storage that may be new or resized (or None), and with the operation.
            is_recorded: returns whether a storage is recorded; others are recorded when used, such as NumPy's
                or another thread's.
        """
        self._torch = torch
        self._record = record
        self._is_recorded = is_recorded
        self._mode: Any = None
        self._resize: Any = None
        self._thread = 0
        self._started_within = NO_CONTEXT
        self._backward = getattr(torch._C, "_current_graph_task_id", _no_backward)

    @property
    def active(self) -> bool:
        """Whether this thread is traced."""
        return self._thread == threading.get_ident()

    def start(self) -> bool:
        """Starts tracing this thread, between two of its operations; returns whether it is traced."""
        if self.active:
            if self._started_within in (NO_CONTEXT, self._within()):
                return True
            self._remove()  # the mode or pass it was started in has ended, and tracing with it
        if self._torch._C._len_torch_dispatch_stack():
            if self._is_on_top():  # it was left on when another thread began to train
                self._thread = threading.get_ident()
            # Otherwise the script is inside such a mode's `with` block, which would pop our mode instead of
            # its own.
            return self.active
        if self._mode is None:
            base = self._torch.utils._python_dispatch.TorchDispatchMode
            self._mode = type("LanewayMemory", (base,), {"__torch_dispatch__": self._dispatch()})()
            self._resize = self._resizing()
        self._mode.__enter__()
        self._started_within = self._within()
        self._torch.UntypedStorage.resize_ = self._resize
        self._thread = threading.get_ident()
        return True

    def stop(self) -> bool:
        """Stops tracing; returns False while modes of the script lie on top, so that tracing has to continue."""
        if not self.active:
            return True
        if not self._is_on_top() or self._within() not in (NO_CONTEXT, self._started_within):
            return False
        self._remove()
        return True

    def _remove(self) -> None:
        if self._is_on_top():
            self._mode.__exit__(None, None, None)
        if self._torch.UntypedStorage.resize_ is self._resize:
            del self._torch.UntypedStorage.resize_  # the inherited method shows again
        self._thread = 0

    def _within(self) -> tuple[bool, bool]:
        """Returns (in inference mode, in a backward pass).

        At the end of either, PyTorch restores part of its earlier state of modes. A mode that was started
        outside must not be stopped inside, or PyTorch would look for it on an empty stack.
        """
        return self._torch.is_inference_mode_enabled(), self._backward() != -1

    def _is_on_top(self) -> bool:
        depth = self._torch._C._len_torch_dispatch_stack()
        return bool(depth) and self._torch._C._get_dispatch_stack_at(depth - 1) is self._mode

    def _dispatch(self) -> Any:
        record, is_recorded = self._record, self._is_recorded
        # No subclasses: a fake tensor, for example, has no memory.
        tensor_type = self._torch.Tensor
        own_types = frozenset((tensor_type, self._torch.nn.Parameter))
        known: dict[
            int, tuple[Any, bool]
        ] = {}  # by address, together with the operation, whose own hash is slow

        def use(tensor: Any, func: Any) -> None:
            storage = storage_of(tensor) if tensor.is_cpu else None
            if storage is not None and not is_recorded(storage):
                record(storage, func)

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
                        record(storage_of(result), func)
                elif isinstance(result, (tuple, list)):
                    for item in result:
                        if (
                            type(item) is tensor_type and item.is_cpu
                        ):  # no subclass: a fake tensor, for example, has no memory
                            record(storage_of(item), func)
            return result

        return __torch_dispatch__

    def _resizing(self) -> Any:
        """Returns a replacement for the storages' own `resize_`, which is not an operation (FSDP uses it)."""
        original = self._torch._C.StorageBase.resize_

        def resize_(storage: Any, size: int) -> Any:
            before = storage.nbytes()
            result = original(storage, size)
            if storage.device.type == "cpu" and self.active:
                try:
                    self._record(storage, "resize_")
                except BaseException:
                    original(storage, before)
                    raise
            return result

        return resize_


def _no_backward() -> int:
    return -1


def _brings_memory(func: Any) -> bool:
    """Returns whether an operation may bring new memory: a result that is not an alias, or a resized output."""
    schema = getattr(func, "_schema", None)
    if schema is None or schema.name in RETURNS_NEW_STORAGE:
        return True
    if any(argument.is_out for argument in schema.arguments):
        return True
    return any(result.alias_info is None and "Tensor" in str(result.type) for result in schema.returns)
