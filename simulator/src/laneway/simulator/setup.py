"""Makes a simulation's policies, costs and models from names and options.

An option is ``name=value``. ``model``, ``elastic``, ``allocation``, ``preemption`` and ``admission`` choose by name. Every other name is
a parameter of everything that has one of that name: policies, the speed model, costs, what the scheduler knows, the trace's reader,
shared GPUs. With an operator's configuration, its policies are the defaults, and the latencies and failures of its model have
parameters, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from laneway.api.gpu_sharing import OFFERED_PERCENT
from laneway.scheduling import GPU, Node, Policies
from laneway.scheduling.config.operator_config import OperatorConfig, PolicyConfig, SchedulingConfig
from laneway.scheduling.config.parameters import checked, from_text, parameters
from laneway.scheduling.config.registry import (
    ADMISSION,
    DEFAULTS,
    ORDER,
    PLACEMENT,
    PRESETS,
    STAGES,
    choices,
    policies,
    policy_names,
)
from laneway.simulator.costs import Costs
from laneway.simulator.knowledge import Knowledge
from laneway.simulator.models import MODELS
from laneway.simulator.models.speed_model import SpeedModel
from laneway.simulator.operator_model import IDEAL, Failures, Latencies, OperatorModel
from laneway.simulator.sharing import Sharing
from laneway.simulator.trace import TraceJob
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
    """How many shares GPUs offer; None: as the nodes define."""

    operator: OperatorModel
    """The ideal one, unless an operator's configuration is given."""

    configured: OperatorConfig | None
    reading: ReadOptions
    parameters: dict[str, object]
    """All parameters, by their name and owner: ``restart_seconds of the costs``."""

    def jobs(self, jobs: Sequence[TraceJob]) -> tuple[TraceJob, ...]:
        """Return the jobs of a trace, with the bound of jobs that share GPUs."""
        return tuple(jobs) if self.sharing is None else self.sharing.bounded(jobs)

    def nodes(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """Return nodes as they are shared, and as the operator's configuration has them counted."""
        shared = tuple(nodes) if self.sharing is None else self.sharing.shared(nodes)
        return shared if self.configured is None else counted(shared, self.configured)


def make_setup(
    policy: str | None,
    placement: str | None,
    options: Sequence[str],
    configured: OperatorConfig | None = None,
) -> Setup:
    """Return the setup of a policy.

    Args:
        policy: an order policy, or a preset; None: the configured one, or the default.
        placement: a placement policy; None: the preset's, the configured one, or the default.
        options: each ``name=value``; parameters that only other order policies have are ignored.
        configured: the configuration of the operator to be modelled, with its policies; None: the ideal operator.

    Raises:
        ValueError: a name is unknown, or a value is wrong; the message says what to write.
    """
    given = [_split(option) for option in options]
    named = {name: text for name, text in given if name in _CHOSEN}
    stages: dict[str, PolicyConfig] = {} if configured is None else _stages(configured.scheduling)
    policy = policy or (stages["order"].policy if stages else DEFAULTS["order"].name)
    if stages and policy not in PRESETS:
        placement = placement or stages["placement"].policy
        configured_names = {stage: stages[stage].policy for stage in ("elastic", "allocation", "preemption")}
        named = {**configured_names, "admission": _listed(stages)} | named
    if configured is not None and placement == SHARED:
        configured = configured.model_copy(update={"sharing": "lanes"})
    joins = configured is not None and configured.sharing == "lanes" and placement != SHARED
    owners = _owners(policy, placement, named, joins=joins)
    if configured is not None:
        owners |= {"latencies": Latencies, "failures": Failures}
    values = _values([pair for pair in given if pair[0] not in _CHOSEN], owners)
    for role, stage in stages.items():
        if owners.get(role) is _factory(role, stage.policy):
            values[role] = checked(owners[role], stage.parameters(), role) | values[role]
    if configured is not None and joins:
        values["joining"] = configured.scheduling.joining.model_dump() | values["joining"]
    sharing_values = _offered(configured) | values["sharing"]
    chosen = _choices(policy, placement, named)
    made = policies(
        order=policy,
        placement=placement,
        preemption=named.get("preemption"),
        elastic=named.get("elastic"),
        allocation=named.get("allocation"),
        admission=_admission(named),
        admission_options={name: values[f"admission {name}"] for name in _admission(named)},
        joining=values["joining"] if joins else None,
        **{f"{stage}_options": values[stage] for stage in chosen},
    )
    if configured is not None:
        made = replace(made, spare_cpu_percent=configured.scheduling.spare_cpu_percent)
    model_name = _model_name(chosen, named, joins=joins)
    shared = chosen["placement"] == SHARED or bool(sharing_values)
    return Setup(
        policy,
        chosen["placement"],
        made,
        MODELS[model_name](**values["model"]),
        Costs(**values["costs"]),
        Knowledge(**values["knowledge"]),
        Sharing(**sharing_values) if shared else None,
        IDEAL
        if configured is None
        else OperatorModel(configured, Latencies(**values["latencies"]), Failures(**values["failures"])),
        configured,
        ReadOptions(**values["trace"]),
        _parameters_of(chosen, model_name, owners, values, shared=shared),
    )


Factory = Callable[..., object]


def counted(nodes: Sequence[Node], configured: OperatorConfig) -> tuple[Node, ...]:
    """Return nodes whose GPUs' memory and turns are counted as an operator's configuration says."""
    rules = configured.lane_rules()

    def as_counted(gpu: GPU) -> GPU:
        active_percent = configured.active_percent(gpu.allocatable_percent)
        return replace(gpu, lane_rules=rules, active_percent=active_percent)

    return tuple(replace(node, gpus=tuple(map(as_counted, node.gpus))) for node in nodes)


def _offered(configured: OperatorConfig | None) -> dict[str, Any]:
    """Return how many shares GPUs offer where nodes have the operator's switch."""
    if configured is None or configured.sharing == "off":
        return {}
    return {"overcommit": OFFERED_PERCENT[configured.sharing] / 100}


def _stages(scheduling: SchedulingConfig) -> dict[str, PolicyConfig]:
    """Return the configured policies, by the role of their parameters."""
    admission = {f"admission {each.policy}": each for each in scheduling.admission}
    return {
        "order": scheduling.order,
        "elastic": scheduling.elastic,
        "placement": scheduling.placement,
        "allocation": scheduling.allocation,
        "preemption": scheduling.preemption,
        **admission,
    }


def _listed(stages: Mapping[str, PolicyConfig]) -> str:
    return ",".join(stage.policy for role, stage in stages.items() if role.startswith("admission "))


def _factory(role: str, name: str) -> Factory:
    found: Factory = ADMISSION[name] if role.startswith("admission ") else STAGES[role][name]
    return found


def _owners(
    policy: str, placement: str | None, named: Mapping[str, str], *, joins: bool
) -> dict[str, Factory]:
    """Return everything with parameters, by its role."""
    owners: dict[str, Factory] = {"joining": PLACEMENT[SHARED]} if joins else {}
    for stage, name in _choices(policy, placement, named).items():
        owners[stage] = _known(stage, name, policy)
    for name in _admission(named):
        if name not in ADMISSION.names():
            raise ValueError(
                f"there is no admission policy {name!r}; write one of {', '.join(ADMISSION.names())}"
            )
        owners[f"admission {name}"] = ADMISSION[name]
    model = _model_name(_choices(policy, placement, named), named, joins=joins)
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
        if not having and any(name in parameters(each) for each in (Latencies, Failures)):
            raise ValueError(
                f"--option {name}={text}: this belongs to the model of an operator: add --operator FILE"
            )
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


def _model_name(chosen: Mapping[str, str], named: Mapping[str, str], *, joins: bool) -> str:
    """Return the chosen model, or the default for the placement and the elastic policy."""
    if "model" in named:
        return named["model"]
    if joins or chosen["placement"] == SHARED:
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
