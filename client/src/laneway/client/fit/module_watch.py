"""Measures each module's forward pass in a learning iteration, and tells which could be run again.

Running a module's forward again gives the same result if it depends on its inputs, parameters and the random number generators alone. So
one is left out that was called more than once, changes its inputs or its buffers (batch normalisation's running statistics are known to be
harmless, see `laneway.client.fit.recompute`), or has somebody's hooks in it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laneway.client.fit.custody import Custody

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Frame:
    """One call of one module."""

    def __init__(self, module: Any, outer: Optional[Frame]) -> None:
        self.module = module
        self.outer = outer
        self.name = type(module).__name__
        self.first_place = self.last_place = 0
        """The tensors saved meanwhile, by their order in the iteration."""
        self.inputs: set[int] = set()
        """The numbers of storages that came in from outside."""
        self.forward_seconds = 0.0
        self.working_bytes = 0
        self.kept_bytes = 0
        """Inputs that are saved for it alone, if it computes again."""
        self.within: Optional[int] = None
        self.crest_bytes = 0
        self.held_bytes = 0
        self.input_versions: list[tuple[Any, int]] = []
        self.buffer_versions: list[tuple[Any, int]] = []
        self.repeatable = True


class ModuleWatch:
    """Of one iteration. Its hooks are global and go with it."""

    def __init__(self, torch: Any, custody: Custody, look: Callable[[], tuple[int, int]]) -> None:
        """Begins to watch.

        Args:
            torch: the module `torch`.
            custody: what is told of the tensors that are saved.
            look: (bytes held now, the most held since the last look).
        """
        self._torch = torch
        self._custody = custody
        self._look = look
        self._stack: list[Frame] = []
        self._frames: list[Frame] = []
        self._calls: dict[int, int] = {}
        modules = torch.nn.modules.module
        self._handles = [
            modules.register_module_forward_pre_hook(self._before),
            modules.register_module_forward_hook(self._after),
        ]

    @property
    def modules(self) -> list[Any]:
        """Those that `finish` returned, in its order."""
        return [frame.module for frame in self._frames]

    def note(self, crest_bytes: int) -> None:
        """So much was held since the last look."""
        for frame in self._stack:
            frame.crest_bytes = max(frame.crest_bytes, crest_bytes)

    def close(self) -> None:
        """Takes the hooks out."""
        for handle in self._handles:
            handle.remove()

    def finish(self) -> list[Frame]:
        """The calls that could be repeated, outer ones before those inside them."""
        self.close()
        chosen = [f for f in self._frames if f.repeatable and self._calls[id(f.module)] == 1]
        chosen.sort(key=lambda f: (f.first_place, -f.last_place))
        places = {id(frame): index for index, frame in enumerate(chosen)}
        for frame in chosen:
            outer = frame.outer
            while outer is not None and id(outer) not in places:
                outer = outer.outer
            frame.within = None if outer is None else places[id(outer)]
        self._frames = chosen
        return chosen

    def _before(self, module: Any, args: Any) -> None:
        if not self._torch.is_grad_enabled() or self._custody.recorder is None:
            return
        frame = Frame(module, self._stack[-1] if self._stack else None)
        self._calls[id(module)] = self._calls.get(id(module), 0) + 1
        frame.input_versions = [(tensor, tensor._version) for tensor in tensors_in(args, self._torch.Tensor)]
        frame.buffer_versions = [(buffer, buffer._version) for buffer in self._delicate_buffers(module)]
        frame.repeatable = self._is_plain(module)
        frame.first_place = self._custody.places
        frame.held_bytes, crest_bytes = self._look()
        self.note(crest_bytes)
        self._stack.append(frame)
        self._custody.host.settle()
        frame.forward_seconds = self._custody.spent_seconds - time.perf_counter()

    def _after(self, module: Any, args: Any, output: Any) -> None:
        if not self._stack or self._stack[-1].module is not module:
            return  # of a call that began before this did, or that an exception has left
        self._custody.host.settle()
        frame = self._stack[-1]
        frame.forward_seconds += time.perf_counter() - self._custody.spent_seconds
        self.note(self._look()[1])
        self._stack.pop()
        frame.last_place = self._custody.places
        frame.working_bytes = max(0, frame.crest_bytes - frame.held_bytes)
        changed = frame.input_versions + frame.buffer_versions
        frame.repeatable = frame.repeatable and all(tensor._version == version for tensor, version in changed)
        frame.inputs, frame.kept_bytes = self._custody.saved_of(
            [tensor for tensor, _ in frame.input_versions]
        )
        frame.input_versions = frame.buffer_versions = []
        self._frames.append(frame)

    def _delicate_buffers(self, module: Any) -> Iterator[Any]:
        harmless = self._torch.nn.modules.batchnorm._BatchNorm
        for part in module.modules():
            if not isinstance(part, harmless):
                yield from (buffer for buffer in part._buffers.values() if buffer is not None)

    def _is_plain(self, module: Any) -> bool:
        jit, parallel = self._torch.jit.ScriptModule, self._torch.nn.parallel.DistributedDataParallel
        for part in module.modules():
            if isinstance(part, (jit, parallel)) or any(getattr(part, name, None) for name in _HOOKS):
                return False
        return "forward" not in vars(module)


def tensors_in(value: Any, kind: type) -> Iterator[Any]:
    """The tensors in nested containers, as modules take and return them."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item, kind)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()), kind)
