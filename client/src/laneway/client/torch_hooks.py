"""PyTorch's global hooks as iteration boundaries: an iteration lasts from the first forward to the end of the optimizer's step.

- The first parameter of the process, or its first forward, opens the session.
- The first forward after a boundary begins an iteration. The hook that sees it is then taken out until the boundary, so that the
  forwards of a model's inner modules cost nothing.
- A forward without gradients (evaluation, generation) is an iteration of its own, which ends with the outermost module's forward.
- The end of an optimizer's step is the boundary, whichever optimizer it is. A step without a forward is an iteration, too.

A forked child, or one that multiprocessing started, takes part once it has stepped an optimizer, not before.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Optional, Union

from laneway.client.cpu_memory import CpuMeter
from laneway.client.cuda_memory import CudaMeter
from laneway.client.fit.fit import Fit, Mode
from laneway.client.fit.fit_meter import FitMeter
from laneway.client.gang import TorchGang
from laneway.client.offload_storages import TorchMover
from laneway.client.process_kind import is_multiprocessing_child
from laneway.client.runtime import Client, client, is_our_fault

if TYPE_CHECKING:
    from laneway.client.memory_meter import MemoryMeter


def install(torch: Any) -> None:
    """Puts the hooks into PyTorch; does nothing for a version that has none (before 2.0)."""
    # Not torch.optim.optimizer: torch.optim deletes that name.
    optimizer = import_module("torch.optim.optimizer")
    if hasattr(optimizer, "register_optimizer_step_post_hook"):
        TorchHooks(torch, import_module("torch.nn.modules.module"), optimizer, client()).arm()


class Switch:
    """A global hook that can be put in and taken out in a tenth of a microsecond."""

    def __init__(self, handle: Any) -> None:
        """Takes what PyTorch's `register_…` returned; the hook is in."""
        self._hooks = handle.hooks_dict_ref()
        self._key = handle.id
        self._hook = self._hooks[self._key]

    def put_in(self) -> None:
        """The hook is called from now on."""
        self._hooks[self._key] = self._hook

    def take_out(self) -> None:
        """The hook is not called any more."""
        self._hooks.pop(self._key, None)


class TorchHooks:
    """The hooks, and what they do."""

    def __init__(self, torch: Any, modules: Any, optimizer: Any, owner: Client) -> None:
        """Registers the hooks.

        Args:
            torch: the module `torch`.
            modules: `torch.nn.modules.module`.
            optimizer: `torch.optim.optimizer`.
            owner: the process's client.
        """
        self._torch = torch
        self._client = owner
        self._helper = is_multiprocessing_child()
        self._evaluated: Optional[Any] = None
        """The outermost module of the evaluation that goes on."""
        self._optimizers: dict[int, tuple[int, int]] = {}
        self._is_compiling = _is_compiling(torch)
        self._is_grad_enabled = torch.is_grad_enabled
        self._before_forward = Switch(modules.register_module_forward_pre_hook(self._on_forward))
        self._after_forward = Switch(_register_forward_end(modules, self._on_forward_end))
        self._before_step = Switch(optimizer.register_optimizer_step_pre_hook(self._on_step))
        self._after_step = Switch(optimizer.register_optimizer_step_post_hook(self._on_step_end))
        register = getattr(modules, "register_module_parameter_registration_hook", None)
        self._first_parameter = Switch(register(self._on_parameter)) if register else None
        owner.open_session = self._start
        owner.on_fork = self._become_helper

    def arm(self) -> None:
        """Puts in what the process needs first."""
        self._after_forward.take_out()
        if self._helper:
            self._become_helper()

    # --- the hooks; PyTorch's compiler traces the first two, and must see nothing in them ---

    def _on_forward(self, module: Any, args: Any) -> None:
        if self._is_compiling() or self._client.gate.explicit:
            return
        self._before_forward.take_out()
        try:
            self._start()
            if not self._is_grad_enabled():
                self._evaluated = module
                self._after_forward.put_in()
            gang = self._client.stop.gang
            if gang is not None:
                self._client.stop.meet(gang)
            self._client.gate.begin()
        except BaseException as raised:
            self._after_forward.take_out()
            self._before_forward.put_in()
            if not self._absorbs(raised):
                raise

    def _on_forward_end(self, module: Any, args: Any, output: Any) -> None:
        if self._is_compiling() or module is not self._evaluated:
            return
        self._evaluated = None
        self._boundary(trained=False)

    def _on_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        gate = self._client.gate
        if gate.inside or gate.explicit or self._helper or self._is_compiling():
            return
        self._on_forward(None, args)

    def _on_step_end(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._is_compiling():
            return
        if self._helper:
            self._become_trainer()
        if self._client.gate.explicit:
            return
        if id(optimizer) not in self._optimizers:
            self._take_note_of(optimizer)
            self._client.join_gang()
        self._boundary(trained=True)

    def _on_parameter(self, module: Any, name: str, parameter: Any) -> None:
        if parameter is None or self._is_compiling():
            return
        if self._first_parameter is not None:
            self._first_parameter.take_out()
        self._start_guarded()

    # --- within ---

    def _boundary(self, trained: bool) -> None:
        self._after_forward.take_out()
        self._before_forward.put_in()
        try:
            self._client.gate.end(trained)
        except BaseException as raised:
            if not self._absorbs(raised):
                raise

    def _start_guarded(self) -> None:
        try:
            self._start()
        except BaseException as raised:
            if not self._absorbs(raised):
                raise

    def _start(self) -> None:
        if not self._client.started:
            torch = self._torch
            device = "cuda" if _has_cuda(torch) else "cpu"
            measures: Union[CudaMeter, CpuMeter] = CudaMeter(torch) if device == "cuda" else CpuMeter(torch)
            fit = Fit(torch, Mode.read(self._client.fit), measures.look)
            meter: MemoryMeter = measures if fit.mode is Mode.OFF else FitMeter(measures, fit)
            self._client.gate.gang = TorchGang()
            self._client.start(f"torch {torch.__version__}", device, meter, TorchMover(torch, meter))

    def _take_note_of(self, optimizer: Any) -> None:
        """Sizes of what an optimizer trains: the model, and its largest tensor (Tiresias' skew)."""
        sizes = [p.numel() * p.element_size() for group in optimizer.param_groups for p in group["params"]]
        self._optimizers[id(optimizer)] = (sum(sizes), max(sizes, default=0))
        profiler = self._client.gate.profiler
        profiler.model_bytes = sum(total for total, _ in self._optimizers.values())
        profiler.largest_tensor_bytes = max(largest for _, largest in self._optimizers.values())

    def _become_helper(self) -> None:
        self._helper = True
        self._evaluated = None
        self._before_forward.take_out()
        self._after_forward.take_out()
        self._before_step.put_in()
        self._after_step.put_in()
        if self._first_parameter is not None:
            self._first_parameter.take_out()

    def _become_trainer(self) -> None:
        self._helper = False
        self._start_guarded()

    def _absorbs(self, raised: BaseException) -> bool:
        """After a fault of our own, takes the hooks out; False for what is meant for the script."""
        if not is_our_fault(raised):
            return False
        for switch in (self._before_forward, self._after_forward, self._before_step, self._after_step):
            switch.take_out()
        self._client.give_up(raised)
        return True


def _register_forward_end(modules: Any, hook: Any) -> Any:
    try:
        return modules.register_module_forward_hook(hook, always_call=True)  # also when the forward raises
    except TypeError:
        return modules.register_module_forward_hook(hook)  # PyTorch 2.0


def _is_compiling(torch: Any) -> Any:
    compiler = getattr(torch, "compiler", None)
    return getattr(compiler, "is_compiling", None) or _never


def _never() -> bool:
    return False


def _has_cuda(torch: Any) -> bool:
    """Whether there is a CUDA device; asked through NVML, so that the process can still fork and use CUDA in its children."""
    if torch.cuda.is_initialized():
        return True
    name = "PYTORCH_NVML_BASED_CUDA_CHECK"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        return bool(torch.cuda.is_available())
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
