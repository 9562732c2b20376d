"""Sees whether the inputs of an iteration are larger than those of any before, when its first forward begins: then it may need more memory than they did.

A hook of all modules, which is in from a boundary to the first forward of the next iteration. Only tensors that are given by position are seen.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class InputWatch:
    """With and without gradients are two kinds of iterations, each with a largest input of its own."""

    def __init__(self, torch: Any, on_larger: Callable[[], None]) -> None:
        """Puts nothing in yet.

        Args:
            torch: the module `torch`.
            on_larger: called in an iteration with larger inputs, before any operation of its first forward.
        """
        self._inside = False
        self._tensor_type = torch.Tensor
        self._is_grad_enabled = torch.is_grad_enabled
        self._on_larger = on_larger
        self._largest = {False: -1, True: -1}
        handle = import_module("torch.nn.modules.module").register_module_forward_pre_hook(self._on_forward)
        self._hooks = handle.hooks_dict_ref()
        self._key = handle.id
        self.take_out()

    def begin(self) -> None:
        """An iteration begins: its first forward is looked at. Those before it, of transformations of data, say, are not."""
        self._inside = True

    def end(self) -> None:
        """It has ended."""
        self._inside = False
        self._hooks[self._key] = self._on_forward

    def take_out(self) -> None:
        """No forward is looked at."""
        self._hooks.pop(self._key, None)

    def _on_forward(self, module: Any, args: Any) -> None:
        if not self._inside:
            return
        self.take_out()
        numbers = 0
        for item in args:
            if isinstance(item, self._tensor_type):
                numbers += item.numel()
        kind = self._is_grad_enabled()
        if numbers > self._largest[kind]:
            self._largest[kind] = numbers
            self._on_larger()
