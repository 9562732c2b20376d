"""Whether the inputs of an iteration are larger than those of any before, as its first forward begins: then it may need more memory than they did.

Only tensors that are given by position are seen.
"""

from __future__ import annotations

from typing import Any


class InputSizes:
    """With and without gradients are two kinds of iterations, each with a largest input of its own."""

    def __init__(self, torch: Any) -> None:
        """Has seen none. Takes the module `torch`."""
        self._tensor_type = torch.Tensor
        self._is_grad_enabled = torch.is_grad_enabled
        self._largest = {False: -1, True: -1}

    def outgrow(self, inputs: tuple[Any, ...]) -> bool:
        """Takes note of an iteration's inputs; returns whether they are larger than all before."""
        numbers = 0
        for item in inputs:
            if isinstance(item, self._tensor_type):
                numbers += item.numel()
        kind = self._is_grad_enabled()
        if numbers <= self._largest[kind]:
            return False
        self._largest[kind] = numbers
        return True
