"""Runs a module's forward without keeping what is inside, and once more when the backward pass wants it (Chen et al., 2016).

PyTorch's own non-reentrant checkpoint does it, for one module at a time: it keeps the inputs, restores its random number generators and autocast, and
checks that the second run saves the like of the first. Beyond that, the second run finds Python's and NumPy's generators as the first did,
and batch normalisation's running statistics are copies, so that they move once.
"""

from __future__ import annotations

import contextlib
import random
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Recomputing:
    """Stands in for the forward of some modules, during iterations only: between them a module is as its owner made it."""

    def __init__(self, torch: Any, modules: list[Any]) -> None:
        from torch.utils.checkpoint import checkpoint

        self._torch = torch
        self._checkpoint = checkpoint
        self._modules = modules
        self._in_place: list[Any] = []

    def put_in(self) -> None:
        """From now on these modules compute again."""
        for module in self._modules:
            if "forward" not in vars(module) and module.training:
                vars(module)["forward"] = self._stand_in(module, module.forward)
                self._in_place.append(module)

    def take_out(self) -> None:
        """They are as they were."""
        while self._in_place:
            vars(self._in_place.pop()).pop("forward", None)

    def _stand_in(self, module: Any, forward: Any) -> Any:
        def recomputed(*args: Any, **kwargs: Any) -> Any:
            if not self._torch.is_grad_enabled():
                return forward(*args, **kwargs)
            again = Again(self._torch, module)
            return self._checkpoint(
                forward,
                *args,
                use_reentrant=False,
                context_fn=lambda: (again.first(), again.second()),
                **kwargs,
            )

        return recomputed


class Again:
    """What surrounds the first and the second run of a module's forward."""

    def __init__(self, torch: Any, module: Any) -> None:
        self._torch = torch
        self._module = module
        self._states: tuple[Any, Any] = (None, None)

    @contextlib.contextmanager
    def first(self) -> Iterator[None]:
        """The run that counts."""
        self._states = _generators()
        yield

    @contextlib.contextmanager
    def second(self) -> Iterator[None]:
        """The run that only brings back what was not kept."""
        outside = _generators()
        _set_generators(self._states)
        owners = self._copy_statistics()
        try:
            yield
        finally:
            for owner, buffers in owners:
                owner._buffers.update(buffers)
            _set_generators(outside)

    def _copy_statistics(self) -> list[tuple[Any, dict[str, Any]]]:
        owners = []
        for part in self._module.modules():
            if isinstance(part, self._torch.nn.modules.batchnorm._BatchNorm):
                buffers = {name: buffer for name, buffer in part._buffers.items() if buffer is not None}
                owners.append((part, buffers))
                part._buffers.update({name: buffer.clone() for name, buffer in buffers.items()})
        return owners


def _generators() -> tuple[Any, Any]:
    numpy = sys.modules.get("numpy.random")
    return random.getstate(), numpy.get_state() if numpy is not None else None


def _set_generators(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    numpy = sys.modules.get("numpy.random")
    if numpy is not None and states[1] is not None:
        numpy.set_state(states[1])
