"""Measures each module's forward in a learning iteration, and finds the modules that can be run again.

Running a forward again gives the same result if it depends only on inputs, parameters and the random number
generators. So a module is excluded if it was called more than once, changes its inputs or buffers, or has
hooks. Batch normalisation's running statistics are handled separately (`laneway.client.fit.recompute`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laneway.client.fit.saved_activations import SavedActivations

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class ModuleCall:
    """One call of one module."""

    def __init__(self, module: Any, outer: Optional[ModuleCall]) -> None:
        self.module = module
        self.outer = outer
        self.name = type(module).__name__
        self.first_position = self.last_position = 0
        """The positions of the tensors saved during the call, in the iteration's order."""
        self.inputs: set[int] = set()
        """The numbers of storages that came from outside."""
        self.forward_seconds = 0.0
        self.working_bytes = 0
        self.kept_bytes = 0
        """Inputs that are kept for this call alone, if it is recomputed."""
        self.enclosing: Optional[int] = None
        self.peak_bytes = 0
        self.held_bytes = 0
        self.input_versions: list[tuple[Any, int]] = []
        self.buffer_versions: list[tuple[Any, int]] = []
        self.repeatable = True


class ModuleProfiler:
    """Profiles one iteration. Its hooks are global and are removed at the end."""

    def __init__(
        self, torch: Any, activations: SavedActivations, sample: Callable[[], tuple[int, int]]
    ) -> None:
        """Installs the hooks.

        Args:
            torch: the module `torch`.
            activations: knows the tensors that are saved.
            sample: returns (bytes held now, most held since the last sample).
        """
        self._torch = torch
        self._activations = activations
        self._sample = sample
        self._stack: list[ModuleCall] = []
        self._finished_calls: list[ModuleCall] = []
        self._call_counts: dict[int, int] = {}
        modules = torch.nn.modules.module
        self._handles = [
            modules.register_module_forward_pre_hook(self._before),
            modules.register_module_forward_hook(self._after),
        ]

    @property
    def modules(self) -> list[Any]:
        """The modules of the calls that `finish` returned, in the same order."""
        return [call.module for call in self._finished_calls]

    def update_peak(self, peak_bytes: int) -> None:
        """Records the most held since the last sample."""
        for call in self._stack:
            call.peak_bytes = max(call.peak_bytes, peak_bytes)

    def close(self) -> None:
        """Removes the hooks."""
        for handle in self._handles:
            handle.remove()

    def finish(self) -> list[ModuleCall]:
        """Returns the calls that can be repeated, outer ones before inner ones."""
        self.close()
        chosen = [f for f in self._finished_calls if f.repeatable and self._call_counts[id(f.module)] == 1]
        chosen.sort(key=lambda f: (f.first_position, -f.last_position))
        places = {id(call): index for index, call in enumerate(chosen)}
        for call in chosen:
            outer = call.outer
            while outer is not None and id(outer) not in places:
                outer = outer.outer
            call.enclosing = None if outer is None else places[id(outer)]
        self._finished_calls = chosen
        return chosen

    def _before(self, module: Any, args: Any) -> None:
        if not self._torch.is_grad_enabled() or self._activations.recorder is None:
            return
        call = ModuleCall(module, self._stack[-1] if self._stack else None)
        self._call_counts[id(module)] = self._call_counts.get(id(module), 0) + 1
        call.input_versions = [(tensor, tensor._version) for tensor in tensors_in(args, self._torch.Tensor)]
        call.buffer_versions = [(buffer, buffer._version) for buffer in self._checked_buffers(module)]
        call.repeatable = self._is_recomputable(module)
        call.first_position = self._activations.saved_count
        call.held_bytes, peak_bytes = self._sample()
        self.update_peak(peak_bytes)
        self._stack.append(call)
        self._activations.host.synchronize()
        call.forward_seconds = self._activations.spent_seconds - time.perf_counter()

    def _after(self, module: Any, args: Any, output: Any) -> None:
        if not self._stack or self._stack[-1].module is not module:
            return  # the call began before the hooks were installed, or was left by an exception
        self._activations.host.synchronize()
        call = self._stack[-1]
        call.forward_seconds += time.perf_counter() - self._activations.spent_seconds
        self.update_peak(self._sample()[1])
        self._stack.pop()
        call.last_position = self._activations.saved_count
        call.working_bytes = max(0, call.peak_bytes - call.held_bytes)
        changed = call.input_versions + call.buffer_versions
        call.repeatable = call.repeatable and all(tensor._version == version for tensor, version in changed)
        call.inputs, call.kept_bytes = self._activations.saved_of(
            [tensor for tensor, _ in call.input_versions]
        )
        call.input_versions = call.buffer_versions = []
        self._finished_calls.append(call)

    def _checked_buffers(self, module: Any) -> Iterator[Any]:
        harmless = self._torch.nn.modules.batchnorm._BatchNorm
        for part in module.modules():
            if not isinstance(part, harmless):
                yield from (buffer for buffer in part._buffers.values() if buffer is not None)

    def _is_recomputable(self, module: Any) -> bool:
        jit, parallel = self._torch.jit.ScriptModule, self._torch.nn.parallel.DistributedDataParallel
        for part in module.modules():
            if isinstance(part, (jit, parallel)) or any(getattr(part, name, None) for name in _HOOKS):
                return False
        return "forward" not in vars(module)


def tensors_in(value: Any, kind: type) -> Iterator[Any]:
    """Yields the tensors in nested containers, as modules take and return them."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item, kind)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()), kind)
