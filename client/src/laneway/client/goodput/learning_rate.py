"""Scales the learning rate with the batch, for the duration of each step of an optimizer.

Schedulers and checkpoints see the script's own learning rate.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.goodput.gradient_noise import SuccessiveGradients, stride_of

if TYPE_CHECKING:
    from laneway.client.goodput.batch_plan import BatchPlan

ADASCALE: Final = "adascale"
SQUARE_ROOT: Final = "square-root"
RULES: Final = (ADASCALE, SQUARE_ROOT)
MEASURED_EVERY: Final = 16
"""Steps between measurements of AdaScale, which takes two in a row. All ranks count alike."""
SMOOTHING: Final = 0.95


def rule_for(optimizer: Any) -> str:
    """Returns AdaScale for SGD, and the square root for optimizers that divide by the gradients' size (Adam)."""
    return ADASCALE if any(base.__name__ == "SGD" for base in type(optimizer).__mro__) else SQUARE_ROOT


class AdaScale:
    """The gain of a larger batch (Johnson et al., ICML'20, algorithm 1): the steps of the initial batch that one
    step is worth, from 1 to the ratio of the batches.

    It is measured from successive averaged gradients. The ranks average the result, so all of them scale alike.
    """

    def __init__(self, torch: Any, plan: BatchPlan) -> None:
        """Takes the module `torch` and the batch."""
        self._torch = torch
        self._plan = plan
        self._gradients = SuccessiveGradients(torch)
        self._steps = 0
        self._square = self._variance = 0.0
        self.gain = 1.0

    def observe(self, parameters: list[Any]) -> None:
        """Takes the gradients of a step that is about to be made."""
        self._steps += 1
        if self._steps % MEASURED_EVERY not in (MEASURED_EVERY - 1, 0):
            return
        moments = self._gradients.add(parameters, stride_of(parameters))
        if self._steps % MEASURED_EVERY:
            return  # the first of the two
        square, variance = self._averaged(moments, parameters)
        if math.isfinite(square) and math.isfinite(variance):
            self._square = SMOOTHING * self._square + (1 - SMOOTHING) * square
            self._variance = SMOOTHING * self._variance + (1 - SMOOTHING) * variance
            self.gain = adascale_gain(self._square, self._variance, self._plan.total / self._plan.initial)

    def _averaged(self, moments: Any, parameters: list[Any]) -> tuple[float, float]:
        """Returns the moments, averaged over the ranks. A rank without gradients, as FSDP may leave one, takes part:
        the others wait for it."""
        if moments is None:
            both = self._torch.zeros(2, device=parameters[0].device if parameters else None)
        else:
            both = self._torch.stack(list(moments))
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(both)
            both = both / distributed.get_world_size()
        square, variance = both.tolist()
        return square, variance


class SquareRoot:
    """The gain for optimizers like Adam: the square root of the ratio of the batches (Malladi et al.,
    NeurIPS'22)."""

    def __init__(self, plan: BatchPlan) -> None:
        """Takes the batch."""
        self.gain = math.sqrt(plan.total / plan.initial)

    def observe(self, parameters: list[Any]) -> None:
        """Needs no measurement."""


def adascale_gain(square: float, variance: float, scale: float) -> float:
    """Returns AdaScale's gain.

    Args:
        square: the squared norm of the true gradient.
        variance: the variance of the gradient of a whole batch, summed over its components.
        scale: the batch, divided by the initial one.
    """
    if scale <= 1:
        return scale  # a smaller batch than the initial one: scaled linearly
    square, initial_variance = max(0.0, square), max(0.0, variance) * scale
    if square + initial_variance == 0:
        return 1.0
    return (initial_variance + square) / (initial_variance / scale + square)


def scale_steps(optimizer: Any, rule: Any) -> None:
    """Scales an optimizer's steps by a rule, which replaces the optimizer's earlier rule if there is one."""
    scaled = _SCALED.get(optimizer)
    if scaled is None:
        _SCALED[optimizer] = ScaledSteps(optimizer, rule)
    else:
        scaled.rule = rule


class ScaledSteps:
    """Multiplies an optimizer's learning rates by the gain during each of its steps."""

    def __init__(self, optimizer: Any, rule: Any) -> None:
        """Registers hooks at the optimizer."""
        self.rule = rule
        self._rates: Optional[list[Any]] = None
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(self._after_step)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._rates is not None:  # the step before raised an error
            self._after_step(optimizer, args, kwargs)
        groups = optimizer.param_groups
        self.rule.observe([parameter for group in groups for parameter in group["params"]])
        self._rates = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] = group["lr"] * self.rule.gain

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        rates, self._rates = self._rates or [], None
        for index, rate in enumerate(rates):
            optimizer.param_groups[index]["lr"] = rate


_SCALED: Final[MutableMapping[Any, ScaledSteps]] = weakref.WeakKeyDictionary()
"""By optimizer. Each has its hooks once, so that a second rule does not multiply the first one's rates."""
