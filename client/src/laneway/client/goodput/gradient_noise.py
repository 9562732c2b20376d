"""Estimates how much the gradients of single samples differ: the gradient noise scale (McCandlish et al., 2018,
appendix A; Pollux, OSDI'21, section 3.1).

The squared norm of a gradient over `n` samples is on average that of the true gradient plus the variance of one
sample's gradient divided by `n`. So two gradients tell both apart: that of one rank and that of all ranks, or
those of two successive steps.

Norms are taken over at most `MAX_ELEMENTS` numbers, every so many of each tensor. The noise scale is a ratio, so
it stays the same on average. Nothing here changes a gradient.
"""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic_ns
from typing import Any, Final, NamedTuple, Optional

MAX_ELEMENTS: Final = 1 << 14
"""64 KiB in single precision, which a process holds between two steps. More would make one measurement more
precise, but the gradients' own noise stays."""
SMOOTHING: Final = 0.99
"""The weight of the mean so far, for each further measurement. Pollux uses 0.999 for each step; here one step in
many is measured."""
LEAST_MEASUREMENTS: Final = 8
"""Before that the noise scale is not known."""
MOST_SAMPLES: Final = 2.0**40
LARGEST: Final = 1e300
"""Larger moments are dropped, as are infinite ones: their sums would overflow."""


class GradientMoments(NamedTuple):
    """One measurement: two numbers, or tensors of one number."""

    square: Any
    """The squared norm of the true gradient, estimated; may be negative."""
    variance: Any
    """The variance of the gradient over all samples of a step, summed over its components."""


class NoiseScale:
    """The smoothed noise scale of a training."""

    def __init__(self) -> None:
        self._square = self._variance = 0.0
        self._measurements = 0

    def add(self, square: float, variance: float, samples: int) -> None:
        """Adds a measurement of a step over so many samples; infinite ones (a scaler's overflow) are dropped."""
        if not (abs(square) <= LARGEST and abs(variance * samples) <= LARGEST) or samples < 1:
            return
        self._measurements += 1
        self._square = SMOOTHING * self._square + (1 - SMOOTHING) * square
        self._variance = SMOOTHING * self._variance + (1 - SMOOTHING) * variance * samples

    @property
    def samples(self) -> Optional[float]:
        """The batch at which half of a larger batch would be wasted; None while it is not known."""
        if self._measurements < LEAST_MEASUREMENTS:
            return None
        if self._variance <= 0:
            return 0.0 if self._square > 0 else None  # without gradients nothing is known
        if self._variance >= MOST_SAMPLES * self._square:
            return MOST_SAMPLES
        return self._variance / self._square


def stride_of(parameters: Iterable[Any]) -> int:
    """Returns which numbers of each gradient are looked at. An odd stride meets all columns of a matrix."""
    elements = sum(parameter.numel() for parameter in parameters)
    return max(1, elements // MAX_ELEMENTS) | 1 if elements > MAX_ELEMENTS else 1


class SuccessiveGradients:
    """The gradients of two successive steps, as the optimizer sees them. They are the same on all ranks of
    DistributedDataParallel."""

    def __init__(self, torch: Any) -> None:
        """Takes the module `torch`."""
        self._torch = torch
        self._before: Optional[Any] = None

    @property
    def waits(self) -> bool:
        """Whether the first of two steps was taken."""
        return self._before is not None

    def forget(self) -> None:
        """Starts with another first step."""
        self._before = None

    def add(self, parameters: list[Any], stride: int) -> Optional[GradientMoments]:
        """Takes a step's gradients; returns the moments at every second step, without waiting for the device."""
        if _is_captured(self._torch):
            self._before = None
            return None
        found = [_sample(self._torch, parameter.grad, stride) for parameter in parameters]
        gradients = [gradient for gradient in found if gradient is not None]
        now = (
            self._torch.cat([gradient.to(gradients[0].device) for gradient in gradients])
            if gradients
            else None
        )
        before, self._before = self._before, now
        if now is None or before is None or before.shape != now.shape:
            return None
        self._before = None
        difference = before - now
        return GradientMoments((before * now).sum(), (difference * difference).sum() / 2)


class LocalGradients:
    """The gradients of one rank of DistributedDataParallel in one step, before they are averaged and after.

    A tensor's hook sees the gradient of each backward pass before it is added to `.grad`. What `.grad` holds
    then is of earlier passes of the step, which were not averaged yet.
    """

    def __init__(self, torch: Any, parameters: list[Any], ranks: int, stride: int) -> None:
        """Watches the next passes.

        Args:
            torch: the module `torch`.
            parameters: those that are trained.
            ranks: how many ranks average their gradients.
            stride: which numbers are looked at.
        """
        self._torch = torch
        self._ranks = ranks
        self._stride = stride
        self._pass = -1
        self._local: list[tuple[Any, Any]] = []
        """Parameters, with what is looked at of their gradients."""
        self._squares: list[tuple[Any, Any]] = []
        """The moments of the last pass, by parameter."""
        self.passes = 0
        """The backward passes so far."""
        self.spent_ns = 0
        self.fault: Optional[Exception] = None
        """What went wrong in a hook, where it must not be raised."""
        self._hooks = [
            parameter.register_hook(_hook(self, parameter))
            for parameter in parameters
            if parameter.requires_grad and parameter.is_leaf
        ]

    def end(self) -> Optional[GradientMoments]:
        """Stops watching; returns the moments of the last pass, None if it gave none."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._local.clear()
        if self.fault is not None:
            raise self.fault
        if not self._squares:
            return None
        square, variance = (self._torch.stack([pair[i] for pair in self._squares]).sum() for i in (0, 1))
        return GradientMoments(square, variance)

    def on_gradient(self, parameter: Any, gradient: Any) -> None:
        """Takes a parameter's gradient of one pass."""
        if _is_captured(self._torch):
            return
        began_ns = monotonic_ns()
        current = self._torch._C._current_graph_task_id()
        if current != self._pass:
            self._pass = current
            self.passes += 1
            self._local, self._squares = [], []
            # DistributedDataParallel queues its own end of the pass later than this, so this is queued twice.
            engine = self._torch.autograd.Variable._execution_engine
            engine.queue_callback(lambda: engine.queue_callback(self._on_pass_end))
        sample = _sample(self._torch, gradient, self._stride)
        if sample is not None:
            earlier = _sample(self._torch, parameter.grad, self._stride)
            # A copy: the gradient's memory may become `.grad`, in which it is averaged.
            sample = sample.clone() if earlier is None else sample + earlier
            self._local.append((parameter, sample))
        self.spent_ns += monotonic_ns() - began_ns

    def _on_pass_end(self) -> None:
        began_ns = monotonic_ns()
        try:
            for parameter, local in self._local:
                averaged = _sample(self._torch, parameter.grad, self._stride)
                if averaged is not None:
                    # What the other ranks found is independent of this rank's, so the product has no variance in it.
                    others = (self._ranks * averaged - local) / (self._ranks - 1)
                    difference = local - averaged
                    variance = (difference * difference).sum() / (self._ranks - 1)
                    self._squares.append(((local * others).sum(), variance))
        except Exception as fault:
            self.fault = fault
        self.spent_ns += monotonic_ns() - began_ns


class PassCounter:
    """Counts the backward passes that reach any parameter: some may be unused."""

    def __init__(self, torch: Any, parameters: list[Any]) -> None:
        """Takes the module `torch`, and the parameters that are trained."""
        self.passes = 0
        self._pass = -1
        self._torch = torch
        self._hooks = [parameter.register_hook(self._on_gradient) for parameter in parameters]

    def end(self) -> int:
        """Stops counting; returns the number."""
        for hook in self._hooks:
            hook.remove()
        return self.passes

    def _on_gradient(self, gradient: Any) -> None:
        current = self._torch._C._current_graph_task_id()
        if current != self._pass:
            self._pass = current
            self.passes += 1


def _sample(torch: Any, gradient: Any, stride: int) -> Optional[Any]:
    """Returns the numbers of a gradient that are looked at; None where it has no plain storage."""
    if gradient is None:
        return None
    gradient = gradient.detach()
    if hasattr(gradient, "to_local"):
        gradient = gradient.to_local()  # a DTensor's operations may wait for other ranks
    return gradient.reshape(-1)[::stride].float() if gradient.layout == torch.strided else None


def _is_captured(torch: Any) -> bool:
    """Returns whether operations are recorded into a CUDA graph instead of being done."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())


def _hook(watch: LocalGradients, parameter: Any) -> Any:
    def on_gradient(gradient: Any) -> None:
        try:
            watch.on_gradient(parameter, gradient)
        except Exception as fault:
            watch.fault = fault

    return on_gradient
