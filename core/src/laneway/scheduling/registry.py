"""Policies by the name that a configuration gives them, with their parameters.

A policy is a frozen dataclass; its fields are its parameters. ``policies(order="tiresias-las",
order_options={"promotion_factor": 4})`` returns one of each stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from laneway.scheduling.admission.policy import AdmissionPolicy
from laneway.scheduling.order.fifo import Fifo
from laneway.scheduling.order.policy import OrderPolicy
from laneway.scheduling.order.tiresias_las import TiresiasLAS
from laneway.scheduling.placement.best_fit import BestFit
from laneway.scheduling.placement.policy import PlacementPolicy
from laneway.scheduling.preemption.lowest_first import LowestFirst
from laneway.scheduling.preemption.policy import PreemptionPolicy

Policy = TypeVar("Policy")

ADMISSION: Mapping[str, Callable[..., AdmissionPolicy]] = MappingProxyType({})
"""None yet: whatever its user does not suspend is admitted. Quotas of namespaces belong here."""

ORDER: Mapping[str, Callable[..., OrderPolicy]] = MappingProxyType(
    {"fifo": Fifo, "tiresias-las": TiresiasLAS}
)
PLACEMENT: Mapping[str, Callable[..., PlacementPolicy]] = MappingProxyType({"best-fit": BestFit})
PREEMPTION: Mapping[str, Callable[..., PreemptionPolicy]] = MappingProxyType({"lowest-first": LowestFirst})


@dataclass(frozen=True, slots=True)
class Policies:
    """One policy for each stage, in the order in which a decision is made."""

    admission: tuple[AdmissionPolicy, ...]
    """All of them must let a job pass."""

    order: OrderPolicy
    placement: PlacementPolicy
    preemption: PreemptionPolicy


def policies(
    *,
    order: str = "tiresias-las",
    placement: str = "best-fit",
    preemption: str = "lowest-first",
    admission: tuple[str, ...] = (),
    order_options: Mapping[str, object] | None = None,
    placement_options: Mapping[str, object] | None = None,
    preemption_options: Mapping[str, object] | None = None,
) -> Policies:
    """Return the policies of these names, with these parameters.

    Raises:
        ValueError: there is no policy, or no parameter, of such a name, or a parameter has a wrong value; says which
            there are.
    """
    return Policies(
        admission=tuple(_make("admission", ADMISSION, name, {}) for name in admission),
        order=_make("order", ORDER, order, order_options or {}),
        placement=_make("placement", PLACEMENT, placement, placement_options or {}),
        preemption=_make("preemption", PREEMPTION, preemption, preemption_options or {}),
    )


def parameters(policy: Callable[..., object]) -> Mapping[str, object]:
    """Return the names of a policy's parameters, with their defaults."""
    if not is_dataclass(policy):
        return {}
    return {field.name: field.default for field in fields(policy)}


def _make(
    stage: str, known: Mapping[str, Callable[..., Policy]], name: str, options: Mapping[str, object]
) -> Policy:
    if name not in known:
        there_are = f"write one of {', '.join(sorted(known))}" if known else "there is none yet"
        raise ValueError(f"there is no {stage} policy {name!r}; {there_are}")
    defaults = parameters(known[name])
    values: dict[str, Any] = {}
    for option, value in options.items():
        if option not in defaults:
            have = f"it has {', '.join(defaults)}" if defaults else "it has none"
            raise ValueError(f"{stage} policy {name} has no parameter {option!r}; {have}")
        values[option] = _like(defaults[option], value, f"parameter {option} of {stage} policy {name}")
    return known[name](**values)


def _like(default: object, value: object, what: str) -> object:
    """Return a value in the type of a parameter's default: true or false, a number, or a tuple of numbers."""
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ValueError(f"{what} is {value!r}: write true or false")
        return value
    if isinstance(default, tuple):
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{what} is {value!r}: write a list of numbers")
        return tuple(_number(item, what) for item in value)
    return _number(value, what)


def _number(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{what} is {value!r}: write a number")
    return float(value)
