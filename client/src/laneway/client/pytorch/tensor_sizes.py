"""Sizes of the trained tensors: the model and its largest tensor.

Their ratio is the skew by which Tiresias consolidates (NSDI'19, section 3.3): a gang whose gradients are
mostly one tensor keeps one link busy while the others idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def trained_sizes(optimizer: Any) -> dict[int, int]:
    """Returns the bytes of each tensor that an optimizer trains. Frozen tensors have no gradients and are
    left out."""
    return {
        id(parameter): parameter.numel() * parameter.element_size()
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.requires_grad
    }


def model_sizes(optimizers: Iterable[Mapping[int, int]]) -> tuple[int, int]:
    """Returns the bytes of the model and of its largest tensor. A tensor trained by several optimizers counts
    once."""
    sizes: dict[int, int] = {}
    for trained in optimizers:
        sizes.update(trained)
    return sum(sizes.values()), max(sizes.values(), default=0)


def largest_trained(optimizers: Iterable[Any]) -> int:
    """Returns how many numbers the optimizer trains that trains most; None entries are optimizers that are
    gone."""
    return max(
        (
            sum(
                parameter.numel()
                for group in each.param_groups
                for parameter in group["params"]
                if parameter.requires_grad
            )
            for each in optimizers
            if each is not None
        ),
        default=0,
    )
