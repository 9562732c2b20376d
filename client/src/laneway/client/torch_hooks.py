"""PyTorch's global hooks as iteration boundaries: an iteration lasts from the first forward to the end of the optimizer's step.

- The first parameter of the process, or its first forward, opens the session.
- The first forward after a boundary begins an iteration. The hook that sees it is then taken out until the boundary, so that the
  forwards of a model's inner modules cost nothing. A module without parameters begins none, unless it is given what lies on a CUDA
  device: it transforms data.
- A forward without gradients (evaluation, generation) is an iteration of its own, which ends with the outermost module's forward.
- Compiled code is a forward, too, and ends like one; a step that was compiled ends with the outermost code that it was compiled in.
- The end of an optimizer's step is the boundary; of several, `optimizer_steps` says which. A step that a GradScaler skips counts as
  done; steps during a backward pass are one, which ends with the pass. A step without a forward is an iteration, too.
- The end of a notebook's cell is a boundary in any case.

A forked child, or one that multiprocessing started, takes part once it has stepped an optimizer, not before.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Optional, Union

from laneway.client.compiled_code import watch_compiled_code
from laneway.client.cpu_memory import CpuMeter
from laneway.client.cuda_memory import CudaMeter
from laneway.client.fit.fit import Fit, Mode
from laneway.client.fit.fit_meter import FitMeter
from laneway.client.gang import TorchGang
from laneway.client.notebook import call_after_cells
from laneway.client.offload_storages import TorchMover
from laneway.client.optimizer_steps import ITERATION, NOT_YET, OptimizerSteps
from laneway.client.process_kind import is_multiprocessing_child
from laneway.client.runtime import Client, client, is_our_fault
from laneway.client.tensor_sizes import model_sizes, trained_sizes

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.memory_meter import MemoryMeter

NO_BACKWARD: Final = -1
"""PyTorch's number for the backward pass where none goes on."""

IN_BACKWARD: Final = -1
"""Stands for all the optimizers that are stepped during one backward pass; no object has this address."""

GRAD_SCALERS: Final = ("torch.amp.grad_scaler", "torch.cuda.amp.grad_scaler")
"""Where versions of PyTorch have the class GradScaler."""


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
        self._over = False
        """After a fault of the client: the hooks do nothing any more."""
        self._evaluated: Optional[Any] = None
        """The outermost module of the evaluation that goes on."""
        self._models: set[int] = set()
        """Modules that were found to have parameters."""
        self._optimizers: dict[int, tuple[Any, dict[int, int]]] = {}
        """By address: a weak reference, the bytes that it trains, and those of its largest tensor."""
        self._steps = OptimizerSteps()
        self._steps_seen = 0
        self._backward = NO_BACKWARD
        """The backward pass at whose end there will be a boundary."""
        self._compiled_step: Optional[Any] = None
        """The optimizer that was stepped in the compiled code that goes on."""
        self._may_compile = False
        """The script compiles or exports something, so a hook may be called in order to be traced."""
        self._is_compiling = _is_compiling(torch)
        self._is_grad_enabled = torch.is_grad_enabled
        self._current_backward = getattr(torch._C, "_current_graph_task_id", _no_backward)
        self._before_forward = Switch(modules.register_module_forward_pre_hook(self._on_forward))
        self._after_forward = Switch(_register_forward_end(modules, self._on_forward_end))
        optimizer.register_optimizer_step_pre_hook(self._on_step)
        optimizer.register_optimizer_step_post_hook(self._on_step_end)
        register = getattr(modules, "register_module_parameter_registration_hook", None)
        self._first_parameter = Switch(register(self._on_parameter)) if register else None
        for name in GRAD_SCALERS:
            self._count_skipped_steps(getattr(sys.modules.get(name), "GradScaler", None))
        watch_compiled_code(self._on_compiled_code, self._on_compiler)
        owner.open_session = self._start
        owner.after_block = self._expect_forward
        owner.on_fork = self._become_helper

    def arm(self) -> None:
        """Puts in what the process needs first."""
        self._after_forward.take_out()
        if self._helper:
            self._become_helper()

    # --- the hooks; PyTorch's compiler traces those of modules and steps, and must see next to nothing in them ---

    def _on_forward(self, module: Any, args: Any) -> None:
        if self._may_compile and self._is_compiling():
            return
        gate, steps = self._client.gate, self._steps
        if gate.explicit or (gate.inside is not None and steps.awaiting is None):
            # The first one of a block, or in a step that began the iteration.
            self._before_forward.take_out()
            self._guarded(gate.meter.take_in, args)
            return
        if id(module) not in self._models and not self._is_computed(module, args):
            return
        if steps.forward():
            self._boundary(trained=True)
        if gate.inside is None:
            self._begin(module, args)
        else:
            self._before_forward.take_out()

    def _on_forward_end(self, module: Any, args: Any, output: Any) -> None:
        # First: a tracer that compared modules would wrap one for a second time, which PyTorch 2.6 calls a fault.
        if (self._may_compile and self._is_compiling()) or module is not self._evaluated:
            return
        self._boundary(trained=False)

    def _on_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        gate = self._client.gate
        if self._over or self._helper or gate.explicit or (self._may_compile and self._is_compiling()):
            return
        steps, inside = self._steps, gate.inside is not None
        if self._current_backward() == NO_BACKWARD and steps.begins(id(optimizer), inside):
            self._boundary(trained=True)
        if gate.inside is None:
            self._begin(None)

    def _on_step_end(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._may_compile and self._is_compiling():
            self._compiled_step = optimizer  # this is part of what is compiled
            return
        if self._over:
            return
        self._steps_seen += 1
        if self._helper:
            self._become_trainer()
        if id(optimizer) not in self._optimizers:
            self._guarded(self._begin_to_train, optimizer)
        if self._client.gate.explicit:
            return
        backward = self._current_backward()
        if backward == NO_BACKWARD:
            self._step_ends(id(optimizer))
        elif backward != self._backward:
            self._backward = backward
            self._torch.autograd.Variable._execution_engine.queue_callback(self._on_backward_end)

    def _on_backward_end(self) -> None:
        if not self._over and not self._client.gate.explicit:
            if self._steps.begins(IN_BACKWARD, self._client.gate.inside is not None):
                self._boundary(trained=True)
            self._step_ends(IN_BACKWARD)

    def _on_compiled_code(self) -> Callable[[], None]:
        gate = self._client.gate
        if gate.inside is not None or gate.explicit or self._over or self._helper or self._is_compiling():
            return self._on_compiled_code_end
        self._steps.forward()
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
        gate = self._client.gate
        if gate.inside is not None and not gate.explicit and not self._over:
            self._boundary(trained=False)

    def _on_compiler(self) -> None:
        self._may_compile = True

    def _on_parameter(self, module: Any, name: str, parameter: Any) -> None:
        if parameter is None or self._is_compiling():
            return
        if self._first_parameter is not None:
            self._first_parameter.take_out()
        self._guarded(self._start)

    # --- within ---

    def _is_computed(self, module: Any, args: Any) -> bool:
        """Whether a forward is the device's work, and not a transformation of data on the way to it."""
        try:
            if next(iter(module.parameters()), None) is None:
                return any(isinstance(value, self._torch.Tensor) and value.is_cuda for value in args)
        except Exception:  # the script's own method
            return True
        self._models.add(id(module))
        return True

    def _begin(self, module: Any, args: tuple[Any, ...] = ()) -> None:
        """An iteration begins with a forward, or where `module` is None with a step, of which a closure may have the first forward."""
        owner = self._client
        try:
            if not owner.started:
                self._start()
            if module is not None:
                self._before_forward.take_out()
                if not self._is_grad_enabled():
                    self._evaluated = module
                    self._after_forward.put_in()
            gang = owner.stop.gang
            if gang is not None:
                owner.stop.meet(gang)
            owner.gate.begin()
            if args:
                owner.gate.meter.take_in(args)
        except BaseException as raised:
            self._expect_forward()
            if not self._absorbs(raised):
                raise

    def _step_ends(self, key: int) -> None:
        outcome = self._steps.ends(key)
        if outcome != NOT_YET:
            self._boundary(trained=outcome == ITERATION)
        elif self._steps.awaiting == key:
            self._before_forward.put_in()  # in case that a forward comes first, after all

    def _boundary(self, trained: bool) -> None:
        self._expect_forward()
        try:
            self._client.gate.end(trained)
        except BaseException as raised:
            if not self._absorbs(raised):
                raise

    def _expect_forward(self) -> None:
        if self._over or self._helper:
            return
        if self._evaluated is not None:
            self._evaluated = None
            self._after_forward.take_out()
        self._before_forward.put_in()

    def _guarded(self, act: Callable[..., None], *arguments: Any) -> None:
        try:
            act(*arguments)
        except BaseException as raised:
            if not self._absorbs(raised):
                raise

    def _start(self) -> None:
        if not self._client.started:
            torch = self._torch
            device = "cuda" if _has_cuda(torch) else "cpu"
            measures: Union[CudaMeter, CpuMeter] = CudaMeter(torch) if device == "cuda" else CpuMeter(torch)
            fit = Fit(torch, Mode.read(self._client.fit), measures.look, measures.watch)
            meter: MemoryMeter = measures if fit.mode is Mode.OFF else FitMeter(measures, fit)
            self._client.gate.gang = TorchGang()
            call_after_cells(self._on_cell_end)
            self._client.start(f"torch {torch.__version__}", device, meter, TorchMover(torch, meter))

    def _begin_to_train(self, optimizer: Any) -> None:
        self._take_note_of(optimizer)
        self._client.join_gang()

    def _take_note_of(self, optimizer: Any) -> None:
        """Sizes of what an optimizer trains: the model, and its largest tensor (Tiresias' skew)."""
        key = id(optimizer)
        reference = weakref.ref(optimizer, lambda _: self._forget_optimizer(key))
        self._optimizers[key] = (reference, trained_sizes(optimizer))
        profiler = self._client.gate.profiler
        known = self._optimizers.copy().values()  # one may go at any moment, in any thread
        profiler.model_bytes, profiler.largest_tensor_bytes = model_sizes(sizes for _, sizes in known)

    def _forget_optimizer(self, key: int) -> None:
        self._optimizers.pop(key, None)
        self._steps.forget(key)

    def _count_skipped_steps(self, scaler: Any) -> None:
        """A GradScaler that finds an infinite gradient steps nothing, and no hook is called: has it seen all the same."""
        step = vars(scaler).get("step") if isinstance(scaler, type) else None
        if step is None:
            return

        @functools.wraps(step)
        def step_or_skip(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            seen = self._steps_seen
            result = step(scaler, optimizer, *args, **kwargs)
            if self._steps_seen == seen:
                self._on_step(optimizer, args, kwargs)
                self._on_step_end(optimizer, args, kwargs)
            return result

        scaler.step = step_or_skip

    def _become_helper(self) -> None:
        self._helper = True
        self._evaluated = None
        self._steps = OptimizerSteps()
        self._optimizers.clear()
        self._before_forward.take_out()
        self._after_forward.take_out()
        if self._first_parameter is not None:
            self._first_parameter.take_out()

    def _become_trainer(self) -> None:
        self._helper = False
        self._expect_forward()
        self._guarded(self._start)

    def _absorbs(self, raised: BaseException) -> bool:
        """After a fault of our own, takes the hooks out; False for what is meant for the script."""
        if not is_our_fault(raised):
            return False
        self._over = True
        # The step's hooks stay in: PyTorch is going through them, and would notice that one is missing.
        self._before_forward.take_out()
        self._after_forward.take_out()
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


def _no_backward() -> int:
    return NO_BACKWARD


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
