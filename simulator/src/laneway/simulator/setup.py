"""Makes a simulation's policies, costs and models from names and options.

An option is ``name=value``. ``model``, ``elastic``, ``allocation``, ``preemption`` and ``admission`` choose by name. Every other name is
a parameter of everything that has one of that name: policies, the speed model, costs, what the scheduler knows, the trace's reader,
shared GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laneway.scheduling import Policies
from laneway.scheduling.config.parameters import checked, from_text, parameters
from laneway.scheduling.config.registry import ADMISSION, ORDER, STAGES, choices, policies, policy_names
from laneway.simulator.costs import Costs
from laneway.simulator.knowledge import Knowledge
from laneway.simulator.models import MODELS
from laneway.simulator.models.speed_model import SpeedModel
from laneway.simulator.sharing import Sharing
from laneway.simulator.traces import ReadOptions

SHARED = "lanes"
"""The name of both the placement and the model of jobs that share GPUs in lanes."""

_CHOSEN = ("elastic", "allocation", "preemption", "admission", "model")


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything about a simulation except its trace and its nodes."""

    policy: str
    """The name of the order policy or of a preset."""

    placement: str
    policies: Policies
    model: SpeedModel
    costs: Costs
    knowledge: Knowledge
    sharing: Sharing | None
    """How GPUs are shared; None: as the nodes define."""

    reading: ReadOptions
    parameters: dict[str, object]
    """All parameters, by their name and owner: ``restart_seconds of the costs``."""


def make_setup(policy: str, placement: str | None, options: Sequence[str]) -> Setup:
    """Return the setup of a policy.

    Args:
        policy: an order policy, or a preset.
        placement: a placement policy; None: the preset's, or the default.
        options: each ``name=value``; parameters that only other order policies have are ignored.

    Raises:
        ValueError: a name is unknown, or a value is wrong; the message says what to write.
    """
    given = [_split(option) for option in options]
    named = {name: text for name, text in given if name in _CHOSEN}
    owners = _owners(policy, placement, named)
    values = _values([pair for pair in given if pair[0] not in _CHOSEN], owners)
    sharing_values = values["sharing"]
    chosen = _choices(policy, placement, named)
    made = policies(
        order=policy,
        placement=placement,
        preemption=named.get("preemption"),
        elastic=named.get("elastic"),
        allocation=named.get("allocation"),
        admission=_admission(named),
        admission_options={name: values[f"admission {name}"] for name in _admission(named)},
        **{f"{stage}_options": values[stage] for stage in chosen},
    )
    model_name = _model_name(chosen, named)
    shared = chosen["placement"] == SHARED or bool(sharing_values)
    return Setup(
        policy,
        chosen["placement"],
        made,
        MODELS[model_name](**values["model"]),
        Costs(**values["costs"]),
        Knowledge(**values["knowledge"]),
        Sharing(**sharing_values) if shared else None,
        ReadOptions(**values["trace"]),
        _parameters_of(chosen, model_name, owners, values, shared=shared),
    )


Factory = Callable[..., object]


def _owners(policy: str, placement: str | None, named: Mapping[str, str]) -> dict[str, Factory]:
    """Return everything with parameters, by its role."""
    owners: dict[str, Factory] = {}
    for stage, name in _choices(policy, placement, named).items():
        owners[stage] = _known(stage, name, policy)
    for name in _admission(named):
        if name not in ADMISSION.names():
            raise ValueError(
                f"there is no admission policy {name!r}; write one of {', '.join(ADMISSION.names())}"
            )
        owners[f"admission {name}"] = ADMISSION[name]
    model = _model_name(_choices(policy, placement, named), named)
    if model not in MODELS:
        raise ValueError(f"there is no model {model!r}; write one of {', '.join(sorted(MODELS))}")
    return owners | {
        "model": MODELS[model],
        "costs": Costs,
        "knowledge": Knowledge,
        "sharing": Sharing,
        "trace": ReadOptions,
    }


def _choices(policy: str, placement: str | None, named: Mapping[str, str]) -> dict[str, str]:
    """Return the policy's name of each stage except admission."""
    chosen = choices(
        policy,
        placement=placement,
        preemption=named.get("preemption"),
        elastic=named.get("elastic"),
        allocation=named.get("allocation"),
    )
    return {stage: choice.name for stage, choice in chosen.items()}


def _known(stage: str, name: str, policy: str) -> Factory:
    try:
        found: Factory = STAGES[stage][name]
    except KeyError:
        known = policy_names() if stage == "order" else STAGES[stage].names()
        raise ValueError(f"there is no {stage} policy {name!r}; write one of {', '.join(known)}") from None
    return found


def _values(given: Sequence[tuple[str, str]], owners: Mapping[str, Factory]) -> dict[str, dict[str, Any]]:
    """Return the checked values of each owner's parameters."""
    values: dict[str, dict[str, object]] = {owner: {} for owner in owners}
    defaults = {owner: parameters(made) for owner, made in owners.items()}
    for name, text in given:
        having = [owner for owner in owners if name in defaults[owner]]
        if not having and not any(name in parameters(ORDER[order]) for order in ORDER):
            known = sorted({parameter for each in defaults.values() for parameter in each})
            raise ValueError(
                f"--option {name}={text}: nothing has a parameter {name!r}; there are {', '.join([*_CHOSEN, *known])}"
            )
        for owner in having:
            try:
                values[owner][name] = _parsed(owners[owner], name, defaults[owner][name], text)
            except ValueError as error:
                raise ValueError(f"--option {name}={error}") from None
    return {
        owner: values[owner] if owner == "trace" else checked(owners[owner], values[owner], owner)
        for owner in owners
    }


def _parsed(owner: Factory, name: str, default: object, text: str) -> object:
    if owner is ReadOptions and name in ("throughputs", "curves"):
        return Path(text)
    return from_text(default, text)


def _split(option: str) -> tuple[str, str]:
    name, equals, text = option.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"--option {option}: write name=value")
    return name.strip(), text.strip()


def _admission(named: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name.strip() for name in named.get("admission", "").split(",") if name.strip())


def _model_name(chosen: Mapping[str, str], named: Mapping[str, str]) -> str:
    """Return the chosen model, or the default for the placement and the elastic policy."""
    if "model" in named:
        return named["model"]
    if chosen["placement"] == SHARED:
        return SHARED
    return "alone" if chosen["elastic"] == "none" else "adaptive"


def _parameters_of(
    chosen: Mapping[str, str],
    model: str,
    owners: Mapping[str, Factory],
    values: Mapping[str, Mapping[str, object]],
    *,
    shared: bool,
) -> dict[str, object]:
    """Return all parameters, defaults included."""
    names = {**chosen, "model": model}
    shown: dict[str, object] = dict(names)
    for owner, made in owners.items():
        if owner == "sharing" and not shared:
            continue
        whose = f"{owner} {names[owner]}" if owner in names else f"the {owner}"
        for name, default in parameters(made).items():
            shown[f"{name} of {whose}"] = values[owner].get(name, default)
    return shown
