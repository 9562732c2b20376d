"""Sizes of the tensors that are trained: the model, and its largest tensor. Their ratio is the skew that Tiresias (NSDI'19, section 3.3)
consolidates by: a gang whose gradients are mostly one tensor keeps one link busy while the others are idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def trained_sizes(optimizer: Any) -> dict[int, int]:
    """Bytes by tensor of what an optimizer trains. What is frozen is in no gradient, so it is left out."""
    return {
        id(parameter): parameter.numel() * parameter.element_size()
        for group in optimizer.param_groups
        for parameter in group["params"]
        if parameter.requires_grad
    }


def model_sizes(optimizers: Iterable[Mapping[int, int]]) -> tuple[int, int]:
    """Bytes of the model and of its largest tensor; a tensor that several optimizers train counts once."""
    sizes: dict[int, int] = {}
    for trained in optimizers:
        sizes.update(trained)
    return sum(sizes.values()), max(sizes.values(), default=0)
