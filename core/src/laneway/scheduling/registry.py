"""Policies by the name that a configuration gives them, with their parameters.

A policy is a frozen dataclass; its fields are its parameters. ``policies(order="tiresias-las",
order_options={"promotion_factor": 4})`` returns one of each stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from laneway.scheduling.admission.policy import AdmissionPolicy
from laneway.scheduling.order.policy import OrderPolicy
from laneway.scheduling.placement.policy import PlacementPolicy
from laneway.scheduling.preemption.policy import PreemptionPolicy


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
    preemption: str = "fewest",
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
    raise NotImplementedError
