"""Detects inputs larger than before at an iteration's first forward: the iteration may then need more memory.

Only positional tensors are seen.
"""

from __future__ import annotations

from typing import Any


class InputSizes:
    """Keeps the largest input of iterations with gradients and of those without."""

    def __init__(self, torch: Any) -> None:
        """Starts without inputs. Takes the module `torch`."""
        self._tensor_type = torch.Tensor
        self._is_grad_enabled = torch.is_grad_enabled
        self._largest = {False: -1, True: -1}

    def exceed_previous(self, inputs: tuple[Any, ...]) -> bool:
        """Records an iteration's inputs; returns whether they are larger than all before."""
        numbers = 0
        for item in inputs:
            if isinstance(item, self._tensor_type):
                numbers += item.numel()
        kind = self._is_grad_enabled()
        if numbers <= self._largest[kind]:
            return False
        self._largest[kind] = numbers
        return True
