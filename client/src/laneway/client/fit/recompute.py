"""Runs a module's forward without keeping what is inside, and once more when the backward pass wants it (Chen et al., 2016).

PyTorch's own non-reentrant checkpoint does it, for one module at a time: it keeps the inputs, restores its random number generators and autocast, and
checks that the second run saves the like of the first. Beyond that, the second run finds Python's and NumPy's generators as the first did,
and batch normalisation's running statistics are copies, so that they move once. A module is tried before it is relied on.
"""

from __future__ import annotations

import contextlib
import random
import sys
from typing import TYPE_CHECKING, Any, Optional

from laneway.client.fit.module_watch import tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Recomputing:
    """Stands in for the forward of some modules, during iterations only: between them a module is as its owner made it."""

    def __init__(self, torch: Any, modules: list[Any]) -> None:
        from torch.utils.checkpoint import checkpoint

        self._torch = torch
        self._checkpoint = checkpoint
        self._modules = modules
        self._in_place: list[Any] = []
        self.runs = 0
        """How often the backward pass had a module computed again. Those that were tried for nothing do not count."""
        self._repeats: dict[int, bool] = {}
        """By module, whether two runs of it give the same."""

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
            if id(module) not in self._repeats:
                self._repeats[id(module)] = self._tries_alike(module, forward, args, kwargs)
            if not self._repeats[id(module)]:
                return forward(*args, **kwargs)
            again = Again(self._torch, module)
            tensors, rebuild = _each_once(args, kwargs, self._torch.Tensor)

            def run(*given: Any) -> Any:
                words, named = rebuild(given)
                return forward(*words, **named)

            return self._checkpoint(
                run,
                *tensors,
                use_reentrant=False,
                context_fn=lambda: (again.first(), self._counted(again.second())),
            )

        return recomputed

    @contextlib.contextmanager
    def _counted(self, run: contextlib.AbstractContextManager[None]) -> Iterator[None]:
        self.runs += 1
        with run:
            yield

    def _tries_alike(self, module: Any, forward: Any, args: Any, kwargs: Any) -> bool:
        """Runs it twice for nothing: whether both give the same to the bit, and save the like. Else the backward pass would fail."""
        torch = self._torch
        again = Again(torch, module)
        runs = []
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        for _ in range(2):
            saved: list[Any] = []

            def note(tensor: Any, saved: list[Any] = saved) -> None:
                saved.append((tensor.shape, tensor.dtype))

            hooks = torch.autograd.graph.saved_tensors_hooks(note, lambda _: None)
            with again.first(), torch.random.fork_rng(devices), again.second(), hooks:
                output = forward(*args, **kwargs)
            runs.append((saved, [tensor.detach() for tensor in tensors_in(output, torch.Tensor)]))
            del output
        (saved, outputs), (saved_again, outputs_again) = runs
        return saved == saved_again and all(map(torch.equal, outputs, outputs_again))


def _each_once(args: Any, kwargs: Any, kind: type) -> tuple[list[Any], Callable[[Any], Any]]:
    """The tensors among arguments, each once, and what puts others in their places: modules look whether two inputs are one."""
    tensors: list[Any] = []
    places: dict[int, int] = {}

    def place(value: Any) -> Optional[int]:
        if not isinstance(value, kind):
            return None
        if id(value) not in places:
            places[id(value)] = len(tensors)
            tensors.append(value)
        return places[id(value)]

    # What is no tensor is kept as it is; of the tensors nothing is, or they could not leave.
    words = [(place(value), None if isinstance(value, kind) else value) for value in args]
    named = {
        name: (place(value), None if isinstance(value, kind) else value) for name, value in kwargs.items()
    }

    def rebuild(given: Any) -> tuple[list[Any], dict[str, Any]]:
        return (
            [value if at is None else given[at] for at, value in words],
            {name: value if at is None else given[at] for name, (at, value) in named.items()},
        )

    return tensors, rebuild


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
