"""The memory of a simulated GPU: the process's CPU tensors stand for what would lie on the device.

A dispatch mode sees the result of every operation of the thread that trains (autograd's backward pass included, which runs in the
calling thread on a CPU) and books new storages. What an operation needs for itself while it runs is not seen. PyTorch compiles nothing
under a dispatch mode: on a simulated GPU, what the script gave to `torch.compile` runs uncompiled.
"""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.out_of_memory import full_message, report_overrun
from laneway.client.page import HIGHEST_BYTES, ROOM
from laneway.client.storage_account import StorageAccount

if TYPE_CHECKING:
    from laneway.client.session import Session

GIVES_ANOTHER_STORAGE: Final = frozenset(
    # These return an alias of their argument as far as their schema tells, and yet bring memory that was not seen before.
    ("aten::lift_fresh", "aten::resize_", "aten::resize_as_", "aten::set_", "aten::_resize_output_")
)


class CpuMeter:
    """Measures, and holds to the quota, while the session's GPU is simulated; else does nothing at all."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._account = StorageAccount()
        self._session: Optional[Session] = None
        self._brings_memory: dict[Any, bool] = {}
        self._thread = 0
        self._mode: Any = None

    def attach(self, session: Session) -> None:
        """Holds the process to this session's quota from the next iteration on."""
        if session.welcome.simulated:
            self._account.limit = session.welcome.quota_bytes
            self._session = session

    def begin(self) -> None:
        """Starts a new peak; at the first time in a thread, starts to watch it."""
        if self._session is None:
            return
        if threading.get_ident() != self._thread:
            self._watch_this_thread()
        self._account.restart()

    def end(self) -> Optional[tuple[int, int]]:
        """(bytes held, highest since `begin`)."""
        if self._mode is None:
            return None
        return self._account.settle(), self._account.highest

    def look(self) -> tuple[int, int]:
        """(bytes held, the most held since the last look)."""
        return self._account.look()

    def moved(self, storages: list[Any]) -> Optional[int]:
        """Books storages anew that were emptied or filled. Called while the thread that trains waits for that."""
        if self._mode is None:
            return None
        for storage in storages:
            self._account.book(storage)
        return self._account.settle()

    def settle(self) -> None:
        """A CPU has done its work when the call returns, and its memory is given back at once."""

    def forget(self) -> None:
        """In a forked child: watch no longer."""
        self._session = None
        if self._mode is not None and self._torch._C._len_torch_dispatch_stack() == 1:
            self._mode.__exit__(None, None, None)
        self._account.limit = 1 << 62

    def _watch_this_thread(self) -> None:
        if self._torch._C._len_torch_dispatch_stack():
            return  # the script is in a `with` block of such a mode, and would leave ours instead of its own
        self._book_what_is_there()
        base = self._torch.utils._python_dispatch.TorchDispatchMode
        self._mode = type("LanewayMemory", (base,), {"__torch_dispatch__": self._dispatch()})()
        self._mode.__enter__()
        self._thread = threading.get_ident()

    def _book_what_is_there(self) -> None:
        tensor_type = self._torch.Tensor
        own_types = (
            tensor_type,
            self._torch.nn.Parameter,
        )  # other subclasses may have no memory: fake tensors
        for candidate in gc.get_objects():
            if type(candidate) in own_types:
                self._book(candidate, "what the script had before its first iteration")

    def _dispatch(self) -> Any:
        brings_memory, tensor_type, book = self._brings_memory, self._torch.Tensor, self._book

        def __torch_dispatch__(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: N807
            result = func(*args, **kwargs) if kwargs else func(*args)
            brings = brings_memory.get(func)
            if brings is None:
                brings = brings_memory[func] = _brings_memory(func)
            if brings:
                if type(result) is tensor_type:
                    book(result, func)
                elif isinstance(result, (tuple, list)):
                    for item in result:
                        if type(item) is tensor_type:  # no subclass: a fake tensor, say, has no memory
                            book(item, func)
            return result

        return __torch_dispatch__

    def _book(self, tensor: Any, what: Any) -> None:
        try:
            if not tensor.is_cpu:
                return
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return  # sparse, functional, fake: no storage of its own
        account, session = self._account, self._session
        if session is not None:
            account.limit = _limit_bytes(session)
        highest = account.highest
        refused_bytes = account.book(storage)
        if session is None:
            return
        if account.highest > highest:
            session.words[HIGHEST_BYTES] = account.highest
        if refused_bytes:
            raise out_of_memory_error(self._torch)(self._refusal(session, refused_bytes, str(what)))

    def _refusal(self, session: Session, wanted_bytes: int, what: str) -> str:
        held_bytes, room_bytes = self._account.held, session.words[ROOM]
        if held_bytes + wanted_bytes <= session.welcome.quota_bytes:
            return full_message(session.welcome.gpu, room_bytes, held_bytes, wanted_bytes, what)
        return report_overrun(session, held_bytes, wanted_bytes, what)


def _limit_bytes(session: Session) -> int:
    quota_bytes, room_bytes = session.welcome.quota_bytes, session.words[ROOM]
    return min(quota_bytes, room_bytes) if room_bytes else quota_bytes


def out_of_memory_error(torch: Any) -> Any:
    """PyTorch's own class for it, by the name that this version has."""
    return getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError


def _brings_memory(func: Any) -> bool:
    """Whether an operation can return memory that was not there before: a result that is no alias of an argument."""
    schema = getattr(func, "_schema", None)
    if schema is None or schema.name in GIVES_ANOTHER_STORAGE:
        return True
    return any(result.alias_info is None and "Tensor" in str(result.type) for result in schema.returns)
