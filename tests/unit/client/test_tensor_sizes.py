"""What counts as the model, for Tiresias' skew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from laneway.client.pytorch.tensor_sizes import model_sizes, trained_sizes


def a_parameter(elements: int, frozen: bool = False) -> Any:
    return SimpleNamespace(numel=lambda: elements, element_size=lambda: 4, requires_grad=not frozen)


def an_optimizer(*groups: list[Any]) -> Any:
    return SimpleNamespace(param_groups=[{"params": group} for group in groups])


def test_a_tensor_counts_once_and_a_frozen_one_not_at_all() -> None:
    shared, own, frozen = a_parameter(100), a_parameter(10), a_parameter(1000, frozen=True)
    first = trained_sizes(an_optimizer([shared, frozen], [own]))
    second = trained_sizes(an_optimizer([shared]))
    assert model_sizes([first, second]) == (440, 400)
    assert model_sizes([]) == (0, 0)
