"""A simulation's policies, costs and models from names and options, as a command line has them.

An option is ``name=value``. ``model``, ``elastic``, ``allocation``, ``preemption`` and ``admission`` choose by name; every other
name is a parameter, and goes to whatever has one of that name: policies, the speed model, costs, what the scheduler knows, the
trace's reader, shared GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laneway.scheduling import Policies
from laneway.scheduling.parameters import checked, from_text, parameters
from laneway.scheduling.registry import ADMISSION, ORDER, STAGES, choices, policies, policy_names
from laneway.simulator.costs import Costs
from laneway.simulator.knowledge import Knowledge
from laneway.simulator.models import MODELS
from laneway.simulator.models.speed_model import SpeedModel
from laneway.simulator.sharing import Sharing
from laneway.simulator.traces import ReadOptions

SHARED = "lanes"
"""The placement, and the model, of jobs that share GPUs in lanes."""

_CHOSEN = ("elastic", "allocation", "preemption", "admission", "model")


@dataclass(frozen=True, slots=True)
class Setup:
    """Everything about a simulation but its trace and its nodes."""

    policy: str
    """The order policy's name, or that of a preset."""

    placement: str
    policies: Policies
    model: SpeedModel
    costs: Costs
    knowledge: Knowledge
    sharing: Sharing | None
    """How GPUs are shared; None: as the nodes say."""

    reading: ReadOptions
    parameters: dict[str, object]
    """All that was chosen, by name and whose it is: ``restart_seconds of the costs``."""


def make_setup(policy: str, placement: str | None, options: Sequence[str]) -> Setup:
    """Return the setup of a policy.

    Args:
        policy: an order policy, or a preset.
        placement: a placement policy; None: the preset's, or the default.
        options: each ``name=value``; ones that only other order policies know are passed over.

    Raises:
        ValueError: something is not known, or has a wrong value; says what to write.
    """
    given = [_split(option) for option in options]
    named = {name: text for name, text in given if name in _CHOSEN}
    takers = _takers(policy, placement, named)
    values = _values([pair for pair in given if pair[0] not in _CHOSEN], takers)
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
        _reading(values["trace"]),
        _said(chosen, model_name, takers, values, shared=shared),
    )


Taker = Callable[..., object]


def _takers(policy: str, placement: str | None, named: Mapping[str, str]) -> dict[str, Taker]:
    """Return everything that has parameters, by what it is."""
    takers: dict[str, Taker] = {}
    for stage, name in _choices(policy, placement, named).items():
        takers[stage] = _known(stage, name, policy)
    for name in _admission(named):
        if name not in ADMISSION.names():
            raise ValueError(
                f"there is no admission policy {name!r}; write one of {', '.join(ADMISSION.names())}"
            )
        takers[f"admission {name}"] = ADMISSION[name]
    model = _model_name(_choices(policy, placement, named), named)
    if model not in MODELS:
        raise ValueError(f"there is no model {model!r}; write one of {', '.join(sorted(MODELS))}")
    return takers | {
        "model": MODELS[model],
        "costs": Costs,
        "knowledge": Knowledge,
        "sharing": Sharing,
        "trace": ReadOptions,
    }


def _choices(policy: str, placement: str | None, named: Mapping[str, str]) -> dict[str, str]:
    """Return the name of the policy of each stage but admission."""
    chosen = choices(
        policy,
        placement=placement,
        preemption=named.get("preemption"),
        elastic=named.get("elastic"),
        allocation=named.get("allocation"),
    )
    return {stage: choice.name for stage, choice in chosen.items()}


def _known(stage: str, name: str, policy: str) -> Taker:
    try:
        found: Taker = STAGES[stage][name]
    except KeyError:
        there_are = policy_names() if stage == "order" else STAGES[stage].names()
        raise ValueError(
            f"there is no {stage} policy {name!r}; write one of {', '.join(there_are)}"
        ) from None
    return found


def _values(given: Sequence[tuple[str, str]], takers: Mapping[str, Taker]) -> dict[str, dict[str, Any]]:
    """Return the values of each taker's parameters, checked."""
    values: dict[str, dict[str, object]] = {taker: {} for taker in takers}
    defaults = {taker: parameters(made) for taker, made in takers.items()}
    for name, text in given:
        takes = [taker for taker in takers if name in defaults[taker]]
        if not takes and not any(name in parameters(ORDER[order]) for order in ORDER):
            known = sorted({parameter for each in defaults.values() for parameter in each})
            raise ValueError(
                f"--option {name}={text}: nothing has a parameter {name!r}; there are {', '.join([*_CHOSEN, *known])}"
            )
        for taker in takes:
            try:
                values[taker][name] = _parsed(takers[taker], name, defaults[taker][name], text)
            except ValueError as error:
                raise ValueError(f"--option {name}={error}") from None
    return {
        taker: values[taker] if taker == "trace" else checked(takers[taker], values[taker], taker)
        for taker in takers
    }


def _parsed(taker: Taker, name: str, default: object, text: str) -> object:
    if taker is ReadOptions and name in ("throughputs", "curves"):
        return Path(text)
    return from_text(default, text)


def _reading(values: Mapping[str, Any]) -> ReadOptions:
    return ReadOptions(**values)


def _split(option: str) -> tuple[str, str]:
    name, equals, text = option.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"--option {option}: write name=value")
    return name.strip(), text.strip()


def _admission(named: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name.strip() for name in named.get("admission", "").split(",") if name.strip())


def _model_name(chosen: Mapping[str, str], named: Mapping[str, str]) -> str:
    """Return the model that is named, else the one that goes with the placement, or with what may change jobs' workers."""
    if "model" in named:
        return named["model"]
    if chosen["placement"] == SHARED:
        return SHARED
    return "alone" if chosen["elastic"] == "none" else "adaptive"


def _said(
    chosen: Mapping[str, str],
    model: str,
    takers: Mapping[str, Taker],
    values: Mapping[str, Mapping[str, object]],
    *,
    shared: bool,
) -> dict[str, object]:
    """Return all that was chosen, defaults included."""
    names = {**chosen, "model": model}
    said: dict[str, object] = dict(names)
    for taker, made in takers.items():
        if taker == "sharing" and not shared:
            continue
        whose = f"{taker} {names[taker]}" if taker in names else f"the {taker}"
        for name, default in parameters(made).items():
            said[f"{name} of {whose}"] = values[taker].get(name, default)
    return said
