"""Detects iterations through PyTorch's global hooks: from the first forward to the end of the optimizer's
step.

- The first parameter of the process, or its first forward, opens the session.
- The first forward after a boundary begins an iteration. Its hook is then disabled until the boundary, so
  that forwards of inner modules cost nothing. A module without parameters transforms data and begins no
  iteration, unless its inputs are on a CUDA device.
- A forward without gradients (evaluation, generation) is an iteration that ends with the outermost module's
  forward.
- Compiled code counts as a forward and ends like one. A compiled step ends with the outermost compiled code
  around it.
- The end of an optimizer's step is the boundary; with several optimizers, `optimizer_steps` decides. A step
  skipped by a GradScaler counts as done. Steps during a backward pass count as one, which ends with the pass.
  A step without a forward is an iteration as well.
- The end of a notebook's cell is always a boundary.

A forked child, or one started by multiprocessing, takes part once it has stepped an optimizer.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import weakref
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Optional, Union

from laneway.client.distributed.gang_pause import TorchGang
from laneway.client.fit.fit_meter import FitMeter
from laneway.client.fit.memory_fit import MemoryFit, Mode
from laneway.client.goodput.meter import GoodputMeter
from laneway.client.memory.cpu_meter import CpuMeter
from laneway.client.memory.cuda_meter import CudaMeter
from laneway.client.offload.torch_mover import TorchMover
from laneway.client.process_kind import is_multiprocessing_child
from laneway.client.pytorch.checkpoint_watch import CheckpointWatch
from laneway.client.pytorch.cpu_threads import limit_threads
from laneway.client.pytorch.loader_workers import give_workers
from laneway.client.pytorch.notebook import call_after_cells
from laneway.client.pytorch.optimizer_steps import ITERATION, NO_BOUNDARY, OptimizerSteps
from laneway.client.pytorch.tensor_sizes import largest_trained, model_sizes, trained_sizes
from laneway.client.runtime import Client, client, is_internal_error
from laneway.client.torch_internals.compiled_code import watch_compiled_code

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.memory.meter import MemoryMeter

log = logging.getLogger("laneway.client")

NO_HOOKS: Final = (
    "PyTorch %s has no hooks for optimizer steps, so the script takes no turns on the GPU: "
    "use PyTorch 2.0 or newer, or put each iteration into `with laneway.client.iteration():`"
)
"""The warning of a script with an old PyTorch."""

NO_BACKWARD: Final = -1
"""PyTorch's number for the backward pass when none is running."""

IN_BACKWARD: Final = -1
"""Stands for all optimizers stepped during one backward pass; no object has this address."""

GRAD_SCALERS: Final = ("torch.amp.grad_scaler", "torch.cuda.amp.grad_scaler")
"""The modules in which versions of PyTorch define GradScaler."""


def install(torch: Any) -> None:
    """Limits PyTorch's threads, gives loaders workers if asked, and installs the hooks. Versions without hooks
    (before 2.0) get a warning instead, and the agent is told."""
    limit_threads(torch)
    give_workers()
    # Not torch.optim.optimizer: torch.optim deletes that name.
    optimizer = import_module("torch.optim.optimizer")
    if not hasattr(optimizer, "register_optimizer_step_post_hook"):
        if not is_multiprocessing_child():
            text = NO_HOOKS % torch.__version__
            log.warning(text)
            client().explain_no_turns(f"torch {torch.__version__}", text)
        return
    hooks = TorchHooks(torch, import_module("torch.nn.modules.module"), optimizer, client())
    hooks.arm()
    CheckpointWatch(torch, hooks.trained_elements)


class ToggledHook:
    """A global hook that can be enabled and disabled in a tenth of a microsecond."""

    def __init__(self, handle: Any) -> None:
        """Takes the handle that PyTorch's `register_…` returned; the hook is enabled."""
        self._hooks = handle.hooks_dict_ref()
        self._key = handle.id
        self._hook = self._hooks[self._key]

    def enable(self) -> None:
        """Enables the hook."""
        self._hooks[self._key] = self._hook

    def disable(self) -> None:
        """Disables the hook."""
        self._hooks.pop(self._key, None)


class TorchHooks:
    """The hooks and their state."""

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
        self._is_helper = is_multiprocessing_child()
        self._is_disabled = False
        """Set after an internal error: the hooks do nothing any more."""
        self._evaluated: Optional[Any] = None
        """The outermost module of the evaluation in progress."""
        self._models: set[int] = set()
        """Modules known to have parameters."""
        self._optimizers: dict[int, tuple[Any, dict[int, int]]] = {}
        """By address: a weak reference, and the bytes of each tensor that it trains."""
        self._steps = OptimizerSteps()
        self._goodput = GoodputMeter(torch, owner.guard.progress.batch)
        self._steps_seen = 0
        self._backward = NO_BACKWARD
        """The backward pass whose end will be a boundary."""
        self._compiled_step: Optional[Any] = None
        """The optimizer that was stepped in the compiled code in progress."""
        self._may_compile = False
        """The script compiles or exports something, so a hook may be called for tracing."""
        self._is_compiling = _is_compiling(torch)
        self._is_grad_enabled = torch.is_grad_enabled
        self._current_backward = getattr(torch._C, "_current_graph_task_id", _no_backward)
        self._before_forward = ToggledHook(modules.register_module_forward_pre_hook(self._on_forward))
        self._after_forward = ToggledHook(_register_forward_end(modules, self._on_forward_end))
        optimizer.register_optimizer_step_pre_hook(self._on_step)
        optimizer.register_optimizer_step_post_hook(self._on_step_end)
        register = getattr(modules, "register_module_parameter_registration_hook", None)
        self._first_parameter = ToggledHook(register(self._on_parameter)) if register else None
        for name in GRAD_SCALERS:
            self._count_skipped_steps(getattr(sys.modules.get(name), "GradScaler", None))
        watch_compiled_code(self._on_compiled_code, self._on_compiler)
        owner.open_session = self._start
        owner.after_block = self._expect_forward
        owner.on_fork = self._become_helper

    def arm(self) -> None:
        """Enables the hooks that the process needs first."""
        self._after_forward.disable()
        if self._is_helper:
            self._become_helper()

    def trained_elements(self) -> int:
        """Returns how many numbers the largest optimizer trains; 0 before the first step."""
        known = self._optimizers.copy().values()  # an optimizer may be freed at any moment, in any thread
        return largest_trained(reference() for reference, _ in known)

    # --- the hooks; PyTorch's compiler traces those of modules and steps, so they must stay trivial ---

    def _on_forward(self, module: Any, args: Any) -> None:
        if self._may_compile and self._is_compiling():
            return
        guard, steps = self._client.guard, self._steps
        if guard.open_blocks or (guard.iteration_session is not None and steps.awaiting is None):
            # The first forward of a block, or inside a step that began the iteration.
            self._before_forward.disable()
            self._guarded(guard.meter.observe_inputs, args)
            return
        if id(module) not in self._models and not self._runs_on_device(module, args):
            return
        if steps.on_forward():
            self._boundary(trained=True)
        if guard.iteration_session is None:
            self._begin(module, args)
        else:
            self._before_forward.disable()

    def _on_forward_end(self, module: Any, args: Any, output: Any) -> None:
        # Compare only outside tracing: a tracer would wrap the modules a second time, which PyTorch 2.6
        # rejects.
        if (self._may_compile and self._is_compiling()) or module is not self._evaluated:
            return
        self._boundary(trained=False)

    def _on_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        guard = self._client.guard
        if (
            self._is_disabled
            or self._is_helper
            or guard.open_blocks
            or (self._may_compile and self._is_compiling())
        ):
            return
        if self._goodput.samples:
            self._goodput.on_step(optimizer)
        steps, inside = self._steps, guard.iteration_session is not None
        if self._current_backward() == NO_BACKWARD and steps.on_begin(id(optimizer), inside):
            self._boundary(trained=True)
        if guard.iteration_session is None:
            self._begin(None)

    def _on_step_end(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._may_compile and self._is_compiling():
            self._compiled_step = optimizer  # the step is part of what is compiled
            return
        if self._is_disabled:
            return
        self._steps_seen += 1
        if self._is_helper:
            self._become_trainer()
        if id(optimizer) not in self._optimizers:
            self._guarded(self._on_first_step, optimizer)
        if self._client.guard.open_blocks:
            return
        backward = self._current_backward()
        if backward == NO_BACKWARD:
            self._step_ends(id(optimizer))
        elif backward != self._backward:
            self._backward = backward
            self._torch.autograd.Variable._execution_engine.queue_callback(self._on_backward_end)

    def _on_backward_end(self) -> None:
        if not self._is_disabled and not self._client.guard.open_blocks:
            if self._steps.on_begin(IN_BACKWARD, self._client.guard.iteration_session is not None):
                self._boundary(trained=True)
            self._step_ends(IN_BACKWARD)

    def _on_compiled_code(self) -> Callable[[], None]:
        guard = self._client.guard
        if (
            guard.iteration_session is not None
            or guard.open_blocks
            or self._is_disabled
            or self._is_helper
            or self._is_compiling()
        ):
            return self._on_compiled_code_end
        self._steps.on_forward()
        code = object()
        self._begin(code)
        return functools.partial(self._on_compiled_code_end, code)

    def _on_compiled_code_end(self, code: Optional[object] = None) -> None:
        optimizer, self._compiled_step = self._compiled_step, None
        if optimizer is not None:
            self._on_step(optimizer, (), {})
            self._on_step_end(optimizer, (), {})
        elif code is not None and code is self._evaluated:
            self._boundary(trained=False)

    def _on_cell_end(self) -> None:
        guard = self._client.guard
        if guard.iteration_session is not None and not guard.open_blocks and not self._is_disabled:
            self._boundary(trained=False)

    def _on_compiler(self) -> None:
        self._may_compile = True

    def _on_parameter(self, module: Any, name: str, parameter: Any) -> None:
        if parameter is None or self._is_compiling():
            return
        if self._first_parameter is not None:
            self._first_parameter.disable()
        self._guarded(self._start)

    # --- internals ---

    def _runs_on_device(self, module: Any, args: Any) -> bool:
        """Returns whether a forward is work of the device, as opposed to preparing data for it."""
        try:
            if next(iter(module.parameters()), None) is None:
                return any(isinstance(value, self._torch.Tensor) and value.is_cuda for value in args)
        except Exception:  # the script may override the method
            return True
        self._models.add(id(module))
        return True

    def _begin(self, module: Any, args: tuple[Any, ...] = ()) -> None:
        """Begins an iteration with a forward, or where `module` is None with a step, whose closure may run
        the first forward."""
        owner = self._client
        try:
            if not owner.started:
                self._start()
            if module is not None:
                self._before_forward.disable()
                if not self._is_grad_enabled():
                    self._evaluated = module
                    self._after_forward.enable()
            gang = owner.stop.gang
            if gang is not None:
                owner.stop.sync_with_gang(gang)
            owner.guard.begin()
            if args:
                owner.guard.meter.observe_inputs(args)
            if module is not None and self._evaluated is None and self._goodput.due <= owner.guard.iterations:
                self._sample_goodput(module, args)
        except BaseException as raised:
            self._expect_forward()
            if not self._suppresses(raised):
                raise

    def _step_ends(self, key: int) -> None:
        outcome = self._steps.on_end(key)
        if outcome != NO_BOUNDARY:
            self._boundary(trained=outcome == ITERATION)
        elif self._steps.awaiting == key:
            self._before_forward.enable()  # in case a forward comes before the awaited step

    def _sample_goodput(self, module: Any, args: tuple[Any, ...]) -> None:
        known = [reference() for reference, _ in self._optimizers.copy().values()]
        optimizers = [optimizer for optimizer in known if optimizer is not None]
        if optimizers:
            largest = max(optimizers, key=lambda each: largest_trained([each]))
            self._goodput.begin(module, args, largest, watchable=not self._may_compile)

    def _boundary(self, trained: bool) -> None:
        self._expect_forward()
        guard = self._client.guard
        if self._goodput.samples and self._goodput.end(guard.iterations + trained, guard.busy_ns):
            guard.progress.note_batch()
        try:
            guard.end(trained)
        except BaseException as raised:
            if not self._suppresses(raised):
                raise

    def _expect_forward(self) -> None:
        if self._is_disabled or self._is_helper:
            return
        if self._evaluated is not None:
            self._evaluated = None
            self._after_forward.disable()
        self._before_forward.enable()

    def _guarded(self, act: Callable[..., None], *arguments: Any) -> None:
        try:
            act(*arguments)
        except BaseException as raised:
            if not self._suppresses(raised):
                raise

    def _start(self) -> None:
        if not self._client.started:
            torch = self._torch
            device = "cuda" if _has_cuda(torch) else "cpu"
            measures: Union[CudaMeter, CpuMeter] = CudaMeter(torch) if device == "cuda" else CpuMeter(torch)
            fit = MemoryFit(torch, Mode.read(self._client.fit), measures.sample, measures.trace)
            meter: MemoryMeter = measures if fit.mode is Mode.OFF else FitMeter(measures, fit)
            self._client.guard.gang = TorchGang()
            call_after_cells(self._on_cell_end)
            self._client.start(f"torch {torch.__version__}", device, meter, TorchMover(torch, meter))

    def _on_first_step(self, optimizer: Any) -> None:
        self._record_sizes(optimizer)
        self._client.guard.progress.begin_training(self.trained_elements())
        self._client.join_gang()

    def _record_sizes(self, optimizer: Any) -> None:
        """Records the sizes of what an optimizer trains: the model and its largest tensor (Tiresias' skew)."""
        key = id(optimizer)
        reference = weakref.ref(optimizer, lambda _: self._forget_optimizer(key))
        self._optimizers[key] = (reference, trained_sizes(optimizer))
        profiler = self._client.guard.profiler
        known = self._optimizers.copy().values()  # an optimizer may be freed at any moment, in any thread
        profiler.model_bytes, profiler.largest_tensor_bytes = model_sizes(sizes for _, sizes in known)

    def _forget_optimizer(self, key: int) -> None:
        self._optimizers.pop(key, None)
        self._steps.forget(key)

    def _count_skipped_steps(self, scaler: Any) -> None:
        """Counts steps that a GradScaler skips because of infinite gradients; PyTorch calls no hook for them."""
        step = vars(scaler).get("step") if isinstance(scaler, type) else None
        if step is None:
            return

        @functools.wraps(step)
        def step_or_skip(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            seen = self._steps_seen
            self._goodput.scaler = scaler
            result = step(scaler, optimizer, *args, **kwargs)
            if self._steps_seen == seen:
                self._on_step(optimizer, args, kwargs)
                self._on_step_end(optimizer, args, kwargs)
            return result

        scaler.step = step_or_skip

    def _become_helper(self) -> None:
        self._is_helper = True
        self._goodput = GoodputMeter(self._torch, self._client.guard.progress.batch)
        self._evaluated = None
        self._steps = OptimizerSteps()
        self._optimizers.clear()
        self._before_forward.disable()
        self._after_forward.disable()
        if self._first_parameter is not None:
            self._first_parameter.disable()

    def _become_trainer(self) -> None:
        self._is_helper = False
        self._expect_forward()
        self._guarded(self._start)

    def _suppresses(self, raised: BaseException) -> bool:
        """Disables the hooks after an internal error and returns True; returns False for exceptions meant for
        the script."""
        if not is_internal_error(raised):
            return False
        self._is_disabled = True
        # The step hooks stay: PyTorch is iterating over them and would notice a missing one.
        self._before_forward.disable()
        self._after_forward.disable()
        self._client.disable(raised)
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


def _no_backward() -> int:
    return NO_BACKWARD


def _has_cuda(torch: Any) -> bool:
    """Returns whether there is a CUDA device. Asks NVML, so that children can still fork and use CUDA."""
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
