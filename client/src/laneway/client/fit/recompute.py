"""Runs a module's forward without keeping its saved tensors, and again when the backward pass needs them
(Chen et al., 2016).

PyTorch's non-reentrant checkpoint does this for one module at a time. It keeps the inputs, restores PyTorch's
random number generators and autocast, and checks that the second run saves the same kinds of tensors. In
addition, the second run here restores Python's and NumPy's generators, and batch normalisation's running
statistics are copied so that they change only once.

In its first iteration here, a module keeps its saved tensors and is run once more beside that. It is only
relied on if both runs agree. So it never runs more than twice in an iteration.
"""

from __future__ import annotations

import contextlib
import random
import sys
from typing import TYPE_CHECKING, Any, Optional

from laneway.client.fit.module_profiler import tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laneway.client.fit.saved_activations import SavedActivations


class Recomputation:
    """Replaces the forward of some modules during iterations. Between iterations the modules are unchanged."""

    def __init__(self, torch: Any, modules: list[Any], activations: SavedActivations) -> None:
        """Starts with the modules unchanged.

        Args:
            torch: the module `torch`.
            modules: those to be recomputed.
            activations: keeps what a module saves in its first iteration.
        """
        from torch.utils.checkpoint import checkpoint

        self._torch = torch
        self._activations = activations
        self._checkpoint = checkpoint
        self._modules = modules
        self._in_place: list[Any] = []
        self.runs = 0
        """How often the backward pass had a module recomputed."""
        self._deterministic: dict[int, bool] = {}
        """By module, whether two runs give the same result."""

    def install(self) -> None:
        """Replaces the modules' forwards."""
        for module in self._modules:
            if "forward" not in vars(module) and module.training:
                vars(module)["forward"] = self._wrap_forward(module, module.forward)
                self._in_place.append(module)

    def remove(self) -> None:
        """Restores the modules."""
        while self._in_place:
            vars(self._in_place.pop()).pop("forward", None)

    def _wrap_forward(self, module: Any, forward: Any) -> Any:
        def recomputed(*args: Any, **kwargs: Any) -> Any:
            if not self._torch.is_grad_enabled():
                return forward(*args, **kwargs)
            if id(module) not in self._deterministic:
                return self._run_and_compare(module, forward, args, kwargs)
            if not self._deterministic[id(module)]:
                return forward(*args, **kwargs)
            context = RerunContext(self._torch, module)
            tensors, rebuild = _deduplicate_tensors(args, kwargs, self._torch.Tensor)

            def run(*given: Any) -> Any:
                words, named = rebuild(given)
                return forward(*words, **named)

            return self._checkpoint(
                run,
                *tensors,
                use_reentrant=False,
                context_fn=lambda: (context.first_run(), self._counted(context.rerun())),
            )

        return recomputed

    @contextlib.contextmanager
    def _counted(self, run: contextlib.AbstractContextManager[None]) -> Iterator[None]:
        self.runs += 1
        with run:
            yield

    def _run_and_compare(self, module: Any, forward: Any, args: Any, kwargs: Any) -> Any:
        """Runs the module without recomputation, and once more beside that as a recomputation would.

        Notes whether both give bitwise the same result and save alike. Otherwise the backward pass would fail.
        """
        torch = self._torch
        context = RerunContext(torch, module)
        devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
        saved: list[Any] = []
        saved_again: list[Any] = []

        def keep(tensor: Any) -> Any:
            saved.append((tensor.shape, tensor.dtype))
            return self._activations.pack(tensor)

        def note(tensor: Any) -> None:
            saved_again.append((tensor.shape, tensor.dtype))

        hooks = torch.autograd.graph.saved_tensors_hooks
        # The run beside comes first, because the random numbers that follow have to be those of the one that counts.
        with context.first_run(), torch.random.fork_rng(devices), context.rerun(), hooks(note, _nothing):
            again = forward(*args, **kwargs)
        outputs_again = [tensor.detach() for tensor in tensors_in(again, torch.Tensor)]
        del again
        with hooks(keep, self._activations.unpack):
            output = forward(*args, **kwargs)
        outputs = [tensor.detach() for tensor in tensors_in(output, torch.Tensor)]
        self._deterministic[id(module)] = saved == saved_again and all(
            map(torch.equal, outputs, outputs_again)
        )
        return output


def _nothing(_: Any) -> None:
    return None


def _deduplicate_tensors(args: Any, kwargs: Any, kind: type) -> tuple[list[Any], Callable[[Any], Any]]:
    """Returns the tensors among the arguments without duplicates, and a function that substitutes others for
    them.

    Modules may check whether two inputs are the same object.
    """
    tensors: list[Any] = []
    places: dict[int, int] = {}

    def place(value: Any) -> Optional[int]:
        if not isinstance(value, kind):
            return None
        if id(value) not in places:
            places[id(value)] = len(tensors)
            tensors.append(value)
        return places[id(value)]

    # Non-tensors are kept as they are. Tensors are not referenced here, so that they can be freed.
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


class RerunContext:
    """The context of the first and the second run of a module's forward."""

    def __init__(self, torch: Any, module: Any) -> None:
        self._torch = torch
        self._module = module
        self._states: tuple[Any, Any] = (None, None)

    @contextlib.contextmanager
    def first_run(self) -> Iterator[None]:
        """Surrounds the run that counts."""
        self._states = _generators()
        yield

    @contextlib.contextmanager
    def rerun(self) -> Iterator[None]:
        """Surrounds the run that only restores what was not kept."""
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
