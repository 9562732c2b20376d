"""Measures the batch and the gradient noise scale of a PyTorch training, in one iteration among many.

With DistributedDataParallel a sampled iteration compares the rank's own gradient with the average. Elsewhere two
successive steps are compared. Between samples an iteration costs one comparison, and samples are so rare that
all of them take at most one part in `OVERHEAD_RATIO` of the time.

Compiled code and FSDP get no hook at their parameters, so there the passes of a step are not known, and the
batch only where the script says it (`laneway.client.batch_size`).
"""

from __future__ import annotations

import logging
import sys
import weakref
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, Optional, TypeVar, Union

from laneway.client.goodput.gradient_noise import (
    GradientMoments,
    LocalGradients,
    NoiseScale,
    PassCounter,
    SuccessiveGradients,
    stride_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.reporting.batch import BatchReport

log = logging.getLogger("laneway.client")

_Function = TypeVar("_Function", bound="Callable[..., Any]")

FIRST_ITERATION: Final = 8
"""Earlier ones warm up."""
MIN_INTERVAL = 16
"""Iterations between the begins of two samples."""
OVERHEAD_RATIO = 250
NEVER: Final = 1 << 62


class GoodputMeter:
    """The meter of one process. A failure ends it, and is not seen by the script."""

    def __init__(self, torch: Any, report: BatchReport) -> None:
        """Takes the module `torch`, and what is reported."""
        self._torch = torch
        self._report = report
        self.due = FIRST_ITERATION
        """The number of iterations after which the next one is sampled."""
        self.samples = False
        """The current iteration is sampled."""
        self.scaler: Any = None
        """The GradScaler in use, if any."""
        self._noise = NoiseScale()
        self._optimizer: Callable[[], Any] = _nothing
        """A weak reference to the optimizer whose gradients are measured."""
        self._parameters: list[Any] = []
        """Its parameters, during a sample."""
        self._stride = 1
        self._successive = SuccessiveGradients(torch)
        self._moments: Optional[tuple[GradientMoments, int]] = None
        """Of the last sample, and the samples of its batch. They are read at the next sample, when the device
        has long computed them."""
        self._watch: Optional[Union[LocalGradients, PassCounter]] = None
        self._local_batch = 0
        self._ranks = 1
        self._spent_ns = 0

    def begin(self, module: Any, inputs: tuple[Any, ...], optimizer: Any, watchable: bool) -> None:
        """Begins a sample with the first forward of an iteration that is due.

        Args:
            module: the outermost module.
            inputs: its positional inputs; the first dimension of the first tensor counts samples.
            optimizer: the one that trains most.
            watchable: whether parameters may have hooks; not where code is compiled.
        """
        began_ns = monotonic_ns()
        if not self._successive.waits:
            self._spent_ns = 0
        try:
            _eager(self._begin)(module, inputs, optimizer, watchable)
        except Exception as fault:
            self._give_up(fault)
        self._spent_ns += monotonic_ns() - began_ns

    def on_step(self, optimizer: Any) -> None:
        """Takes the gradients of a step that is about to be made."""
        if optimizer is not self._optimizer() or isinstance(self._watch, LocalGradients):
            return
        began_ns = monotonic_ns()
        try:
            moments = _eager(self._successive.add)(self._parameters, self._stride)
            if moments is not None:
                self._moments = (moments, 0)
        except Exception as fault:
            self._give_up(fault)
        self._spent_ns += monotonic_ns() - began_ns

    def end(self, iterations: int, busy_ns: int) -> bool:
        """Ends the sample at the boundary; returns whether there is something to report.

        Args:
            iterations: how many the process has trained.
            busy_ns: how long they took.
        """
        self.samples = False
        began_ns = monotonic_ns()
        try:
            changed = _eager(self._end)()
        except Exception as fault:
            self._give_up(fault)
            return False
        spent_ns = self._spent_ns + monotonic_ns() - began_ns
        if isinstance(self._watch, LocalGradients):
            spent_ns += self._watch.spent_ns
        self._watch, self._spent_ns = None, spent_ns
        if self._successive.waits:
            self.due = iterations  # the step after this one
        else:
            mean_ns = max(1, busy_ns // max(1, iterations))
            self.due = iterations + max(MIN_INTERVAL, OVERHEAD_RATIO * spent_ns // mean_ns)
        return changed

    def _begin(self, module: Any, inputs: tuple[Any, ...], optimizer: Any, watchable: bool) -> None:
        self.samples = True
        self._read_moments()
        self._parameters = [each for group in optimizer.param_groups for each in group["params"]]
        if optimizer is not self._optimizer():
            self._optimizer = weakref.ref(optimizer)
            self._stride = stride_of(self._parameters)
            self._successive.forget()
        tensors = (item for item in inputs if isinstance(item, self._torch.Tensor) and item.dim())
        first = next(tensors, None)
        self._local_batch = 0 if first is None else int(first.shape[0])
        group = getattr(module, "process_group", None) if _averages_gradients(module) else None
        self._ranks = _world_size() if group is None else group.size()
        trained = [each for each in self._parameters if each.requires_grad and each.is_leaf]
        if not watchable or not trained or any(map(_is_sharded, trained)):
            self._watch = None
        elif group is not None and self._ranks > 1:
            self._watch = LocalGradients(self._torch, trained, self._ranks, self._stride)
            self._successive.forget()
        else:
            self._watch = PassCounter(self._torch, trained)

    def _end(self) -> bool:
        watch, passes = self._watch, 0
        self._parameters = []
        if isinstance(watch, LocalGradients):
            moments = watch.end()
            passes = watch.passes
            if moments is not None:
                self._moments = (self._unscaled(moments), 0)
        elif watch is not None:
            passes = watch.end()
        report = self._report
        changed = report.observe(self._ranks, self._local_batch, passes, self._noise.samples)
        if self._moments is not None and not self._moments[1]:
            self._moments = (self._moments[0], report.batch)
        return changed

    def _unscaled(self, moments: GradientMoments) -> GradientMoments:
        """Undoes a GradScaler's scale, without waiting for the device."""
        scale = getattr(self.scaler, "_scale", None)
        return moments if scale is None else GradientMoments(*(each / (scale * scale) for each in moments))

    def _read_moments(self) -> None:
        found, self._moments = self._moments, None
        if found is not None:
            self._noise.add(float(found[0].square), float(found[0].variance), found[1])

    def _give_up(self, fault: Exception) -> None:
        log.debug("the gradient noise scale is not measured any more: %r", fault, exc_info=fault)
        self.samples = False
        self.due = NEVER
        if self._watch is not None:
            self._watch.end()
            self._watch = None


def _eager(function: _Function) -> _Function:
    """Keeps the compiler from making a graph of a function: a hook that is called next to compiled code would be compiled, too."""
    compiler = sys.modules.get("torch._dynamo")
    disable = getattr(compiler, "disable", None)
    eager: _Function = function if disable is None else disable(function)
    return eager


def _averages_gradients(module: Any) -> bool:
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    return parallel is not None and isinstance(module, parallel.DistributedDataParallel)


def _world_size() -> int:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    return int(distributed.get_world_size())


def _nothing() -> None:
    return None


def _is_sharded(parameter: Any) -> bool:
    return hasattr(parameter, "to_local") or type(parameter).__name__ == "FlatParameter"
