"""Policies by the name that a configuration gives them, with their parameters.

A policy is a frozen dataclass; its fields are its parameters. ``policies(order="tiresias-las",
order_options={"promotion_factor": 4})`` returns one of each stage. A policy's module is imported when its name is used, so
only the policies that need numpy import it. Other packages bring policies of their own (see ``plug_ins``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from laneway.scheduling.admission.policy import AdmissionPolicy
from laneway.scheduling.config import plug_ins
from laneway.scheduling.config.parameters import checked, parameters
from laneway.scheduling.config.stages import Policies
from laneway.scheduling.order.policy import OrderPolicy
from laneway.scheduling.placement.joined import Joined
from laneway.scheduling.placement.lanes import Lanes
from laneway.scheduling.placement.policy import PlacementPolicy
from laneway.scheduling.preemption.policy import PreemptionPolicy

if TYPE_CHECKING:
    from laneway.scheduling.allocation.policy import AllocationPolicy
    from laneway.scheduling.elastic.policy import ElasticPolicy

__all__ = [
    "ADMISSION",
    "ALLOCATION",
    "ELASTIC",
    "ORDER",
    "PLACEMENT",
    "PREEMPTION",
    "PRESETS",
    "STAGES",
    "Choice",
    "Policies",
    "Stage",
    "choices",
    "parameters",
    "policies",
    "policy_names",
]

PolicyT = TypeVar("PolicyT")
PolicyT_co = TypeVar("PolicyT_co", covariant=True)
Options = Mapping[str, object]


class Stage(Mapping[str, Callable[..., PolicyT_co]], Generic[PolicyT_co]):
    """The policies of a stage. Lists Laneway's own; finds those that other packages bring as well."""

    def __init__(self, name: str, members: tuple[str, ...], built_in: Mapping[str, str]) -> None:
        """Describe a stage.

        Args:
            name: in entry points and messages.
            members: what a policy has to have.
            built_in: by name, ``module:class`` below ``laneway.scheduling``.
        """
        self.name = name
        self._members = members
        self._built_in = built_in

    def __getitem__(self, name: str) -> Callable[..., PolicyT_co]:
        if name in self._built_in:
            module, _, attribute = self._built_in[name].partition(":")
            found: Callable[..., PolicyT_co] = getattr(
                import_module(f"laneway.scheduling.{module}"), attribute
            )
            return found
        brought = plug_ins.find(self.name, name, self._members)
        if brought is None:
            raise KeyError(name)
        return brought

    def __iter__(self) -> Iterator[str]:
        return iter(self._built_in)

    def __len__(self) -> int:
        return len(self._built_in)

    def names(self) -> list[str]:
        """Return all names, those that other packages bring last."""
        return [*sorted(self._built_in), *plug_ins.names(self.name)]

    def made(self, name: str, options: Options) -> PolicyT_co:
        """Return a policy with these parameters.

        Raises:
            ValueError: there is no policy, or no parameter, of such a name, or a parameter has a wrong value.
        """
        try:
            policy = self[name]
        except KeyError:
            lines = [
                f"there is no {self.name} policy {name!r}; write one of {', '.join(self.names())}",
                *plug_ins.misnamed(self.name),
            ]
            raise ValueError("; ".join(lines)) from None
        return policy(**checked(policy, options, f"{self.name} policy {name}"))


NO_POLICY = "none"
"""Leaves a stage out."""


def none() -> None:
    """Leaves the stage out."""


ADMISSION: Stage[AdmissionPolicy] = Stage("admission", ("refusal",), {"quota": "admission.quota:Quota"})
ORDER: Stage[OrderPolicy] = Stage(
    "order",
    (
        "relative",
        "preempts_by_queue",
        "bounds_waiting",
        "interval_seconds",
        "ranks",
        "may_preempt",
        "blocks_later_jobs",
    ),
    {
        "fair": "order.fair:Fair",
        "fifo": "order.fifo:Fifo",
        "finish-time-fair": "order.finish_time_fair:FinishTimeFair",
        "gavel-las": "order.gavel_las:GavelLAS",
        "multilevel-las": "order.multilevel_las:MultilevelLAS",
        "srsf": "order.srsf:SRSF",
        "srtf": "order.srtf:SRTF",
        "tiresias-gittins": "order.tiresias_gittins:TiresiasGittins",
        "tiresias-las": "order.tiresias_las:TiresiasLAS",
    },
)
ELASTIC: Stage[ElasticPolicy | None] = Stage(
    "elastic",
    ("allot",),
    {
        "bftrainer": "elastic.bftrainer:BFTrainer",
        NO_POLICY: "config.registry:none",
        "pollux": "elastic.pollux:Pollux",
    },
)
PLACEMENT: Stage[PlacementPolicy] = Stage(
    "placement",
    ("place", "profile_key"),
    {
        "best-fit": "placement.best_fit:BestFit",
        "consolidate": "placement.consolidate:Consolidate",
        "count": "placement.count:Count",
        "fgd": "placement.fgd:FGD",
        "lanes": "placement.lanes:Lanes",
        "spread": "placement.spread:Spread",
        "tiresias": "placement.tiresias:TiresiasPlacement",
        "topology": "placement.topology:Topology",
    },
)
ALLOCATION: Stage[AllocationPolicy | None] = Stage(
    "allocation",
    ("allot",),
    {
        "greedy": "allocation.greedy:Greedy",
        NO_POLICY: "config.registry:none",
        "optimal": "allocation.optimal:Optimal",
        "proportional": "allocation.proportional:Proportional",
        "tune": "allocation.tune:Tune",
    },
)
PREEMPTION: Stage[PreemptionPolicy] = Stage(
    "preemption",
    ("protected_until_seconds", "victims", "cost_seconds"),
    {
        "least-lost": "preemption.least_lost:LeastLost",
        "lowest-first": "preemption.lowest_first:LowestFirst",
    },
)
STAGES: Mapping[str, Stage[Any]] = MappingProxyType(
    {stage.name: stage for stage in (ADMISSION, ORDER, ELASTIC, PLACEMENT, ALLOCATION, PREEMPTION)}
)
"""In the order in which a decision is made."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A policy of one stage, and the parameters that are not left at their defaults."""

    name: str
    options: Options = field(default_factory=lambda: MappingProxyType({}))


DEFAULTS: Mapping[str, Choice] = MappingProxyType(
    {
        "order": Choice("multilevel-las"),
        "elastic": Choice(NO_POLICY),
        "placement": Choice("best-fit"),
        "allocation": Choice(NO_POLICY),
        "preemption": Choice("lowest-first"),
    }
)

PRESETS: Mapping[str, Mapping[str, Choice]] = MappingProxyType(
    {
        "pollux": MappingProxyType(
            {
                "order": Choice("fifo", {"strict": False}),
                "elastic": Choice("pollux"),
                "preemption": Choice("lowest-first", {"min_run_seconds": 0.0}),
            }
        )
    }
)
"""Presets for several stages, written in place of an order policy. Other stages keep their defaults. Pollux itself has no
order: the oldest jobs get their fewest workers first, and goodput decides about the rest. It also has no minimum run time: what a
restart costs is part of its goal."""


def policy_names() -> list[str]:
    """Return the accepted names of the order stage: order policies and presets."""
    return sorted({*ORDER.names(), *PRESETS}, key=lambda name: (plug_ins.is_name(name), name))


def choices(
    order: str | None = None,
    *,
    placement: str | None = None,
    preemption: str | None = None,
    elastic: str | None = None,
    allocation: str | None = None,
) -> Mapping[str, Choice]:
    """Return the policy of each stage except admission: the named one, else the preset's, else the default."""
    preset = PRESETS.get(order or "", {})
    named = {
        "order": None if order in PRESETS else order,
        "elastic": elastic,
        "placement": placement,
        "allocation": allocation,
        "preemption": preemption,
    }
    return {
        stage: Choice(name) if name is not None else preset.get(stage, DEFAULTS[stage])
        for stage, name in named.items()
    }


def policies(
    *,
    order: str | None = None,
    placement: str | None = None,
    preemption: str | None = None,
    elastic: str | None = None,
    allocation: str | None = None,
    admission: tuple[str, ...] = (),
    order_options: Options | None = None,
    placement_options: Options | None = None,
    preemption_options: Options | None = None,
    elastic_options: Options | None = None,
    allocation_options: Options | None = None,
    admission_options: Mapping[str, Options] | None = None,
    joining: Options | None = None,
) -> Policies:
    """Return the policies of these names, with these parameters.

    Args:
        order: an order policy, or a preset, which also chooses other stages where they are not named.
        placement: a placement policy; so the other stages.
        preemption: which jobs are preempted.
        elastic: how many workers elastic jobs get.
        allocation: how CPUs and memory are divided.
        admission: all of them must admit a job.
        order_options: parameters of the order policy; so for the other stages.
        placement_options: of the placement policy.
        preemption_options: of the preemption policy.
        elastic_options: of the elastic policy.
        allocation_options: of the allocation policy.
        admission_options: parameters of the admission policies, by their names.
        joining: parameters of the policy ``lanes``, by which jobs join others where the placement policy finds no GPU for them alone;
            None: they join no others.

    Raises:
        ValueError: there is no policy, or no parameter, of such a name, or a parameter has a wrong value; says which
            there are.
    """
    chosen = choices(
        order, placement=placement, preemption=preemption, elastic=elastic, allocation=allocation
    )
    given = {
        "order": order_options,
        "placement": placement_options,
        "preemption": preemption_options,
        "elastic": elastic_options,
        "allocation": allocation_options,
    }

    def made(stage: Stage[PolicyT]) -> PolicyT:
        choice = chosen[stage.name]
        return stage.made(choice.name, {**choice.options, **(given[stage.name] or {})})

    for name in admission_options or {}:
        if name not in admission:
            raise ValueError(
                f"there are options for admission policy {name!r}, which is not among {admission}"
            )
    return Policies(
        admission=tuple(ADMISSION.made(name, (admission_options or {}).get(name, {})) for name in admission),
        order=made(ORDER),
        placement=made(PLACEMENT) if joining is None else _joined(made(PLACEMENT), joining),
        preemption=made(PREEMPTION),
        elastic=made(ELASTIC),
        allocation=made(ALLOCATION),
    )


def _joined(alone: PlacementPolicy, options: Options) -> PlacementPolicy:
    lanes = Lanes(**checked(Lanes, options, "placement policy lanes"))
    return alone if isinstance(alone, Lanes) else Joined(alone, lanes)
