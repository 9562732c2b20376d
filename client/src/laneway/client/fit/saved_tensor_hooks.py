"""Pushes hooks for saved tensors on autograd's stack for an iteration; the script's own hooks take
precedence.

Each thread has a stack. Leaving a block of hooks pops whatever is on top, so ours are only pushed on an empty
stack and only popped from the top. PyTorch's function transforms (`torch.func`) do not start while there are
hooks: ours are popped for them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from collections.abc import Callable


class SavedTensorHooks:
    """Pushes and pops one pair of hooks."""

    def __init__(self, torch: Any, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        self._torch = torch
        self._autograd = torch._C._autograd
        self._pack = pack
        self._hooks = (self._on_pack, unpack)
        self._probe: Optional[Any] = None
        self._probing = self._seen = False
        self._thread: Optional[int] = None
        self._disable: Optional[Callable[[str], None]] = None

    @property
    def active(self) -> bool:
        """Whether the hooks are on a stack."""
        return self._thread is not None

    def push(self) -> bool:
        """Pushes the hooks on this thread's stack; returns False where the script has hooks or hooks are
        forbidden."""
        autograd = self._autograd
        if self.active or not autograd._saved_tensors_hooks_is_enabled() or not self._is_empty():
            return False
        autograd._push_saved_tensors_default_hooks(*self._hooks)
        self._thread = threading.get_ident()
        self._disable = autograd._saved_tensors_hooks_disable
        autograd._saved_tensors_hooks_disable = self._step_aside
        return True

    def pop(self) -> bool:
        """Pops the hooks; returns False, and leaves them, where they are not on top or are on another
        thread's stack."""
        if not self.active:
            return True
        if threading.get_ident() != self._thread or not self._is_on_top():
            return False
        self._autograd._pop_saved_tensors_default_hooks()
        self._thread = None
        self._autograd._saved_tensors_hooks_disable = self._disable
        return True

    def _step_aside(self, message: str) -> None:
        disable = self._disable
        self.pop()
        if disable is not None:
            disable(message)

    def _on_pack(self, tensor: Any) -> Any:
        if self._probing:
            self._seen = True
            return tensor
        return self._pack(tensor)

    # The stack is only visible from PyTorch 2.7 on, so an operation on one number is made to save it.

    def _is_empty(self) -> bool:
        node = self._saving_node()
        try:
            node._raw_saved_result.register_hooks(_same, _same)
        except RuntimeError:  # it has hooks
            return False
        return True

    def _is_on_top(self) -> bool:
        self._probing, self._seen = True, False
        try:
            self._saving_node()
        finally:
            self._probing = False
        return self._seen

    def _saving_node(self) -> Any:
        with self._torch.enable_grad():
            if self._probe is None:
                self._probe = self._torch.zeros((), device="cpu", requires_grad=True)
            return self._probe.exp().grad_fn


def _same(tensor: Any) -> Any:
    return tensor
