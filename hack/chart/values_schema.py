"""`values.schema.json`: what the chart's values may be. The parts that become configuration files come from the components' own models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from laneway.api import node_config
from laneway.api.node_config import NodeConfig
from laneway.api.simulated_gpus import SimulatedGPU
from laneway.operator.metrics import CYCLE_SECONDS
from laneway.scheduling.config import operator_config, plug_ins, registry
from laneway.scheduling.config.operator_config import OperatorConfig
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from hack.chart.config_page import CHART_DECIDES, STAGES

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_SHARING: Schema = {"enum": ["off", "lanes", False]}
"""False: an unquoted off."""
_REPLACED: Schema = {"const": "(no longer a value: write sharing: lanes at the top of the values)"}
"""Of a name that `sharing` replaced. The refusal of any value quotes it."""
_OF_ALL_GROUPS: Schema = {"const": "(the same for all groups: write it below node)"}
_NAMES: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_OBJECT: Schema = {"type": "object"}
_OBJECTS: Schema = {"type": "array", "items": _OBJECT}
_SECRET_KEY: Schema = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"name": _TEXT, "key": _TEXT},
    "dependencies": {"name": ["key"], "key": ["name"]},
}
_NAMED: Schema = {
    "type": "array",
    "items": {"type": "object", "required": ["name"], "properties": {"name": _TEXT}},
}
_NAME: Schema = {"type": "string", "maxLength": 50, "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"}
_NAMESPACE: Schema = {**_NAME, "maxLength": 63}
_FOLDER: Schema = {"type": "string", "pattern": "^/.+"}
_FOLDER_OR_NONE: Schema = {"type": "string", "pattern": "^(/.+)?$"}
_DIGEST: Schema = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
_SOCKET: Schema = {"type": "string", "pattern": "^(/[^/]+/.*[^/])?$"}
"""Not right below /: the folder that it is in gets mounted."""
_DURATION: Schema = {"type": "string", "pattern": "^([0-9]+(ms|s|m|h))+$"}
_NUMBER_OR_PERCENT: Schema = {
    "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+%$"}]
}
_QUANTITY: Schema = {
    "anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"},
    ]
}
_Needed = dict[str, "_Needed"]
_IMAGE: _Needed = {"image": {"repository": {}}}
_ACCOUNT: _Needed = {"serviceAccount": {}}
_SWITCH: _Needed = {"enabled": {}}
_NEEDED: _Needed = {
    "crds": _SWITCH,
    "image": {"registry": {}},
    "sharing": {},
    "gpu": {"source": {}, "simulated": {}},
    "operator": {"config": {}, **_IMAGE, **_ACCOUNT},
    "node": {
        "config": {},
        "devicePlugin": _IMAGE,
        "agent": _IMAGE,
        "client": _IMAGE,
        "kubeletFolder": {},
        "clientFolder": {},
        "admissionPolicy": _SWITCH,
        **_ACCOUNT,
    },
    "board": {**_IMAGE, **_ACCOUNT},
    "pods": {"admissionPolicy": _SWITCH},
    "metrics": {
        "podMonitor": {},
        "secure": {**_SWITCH, "image": {"repository": {}, "tag": {}}},
        "serviceMonitor": {},
        "prometheusRule": {},
    },
    "networkPolicy": _SWITCH,
}
"""The values that null must not remove, as a key with nothing below it does. Without them nothing could be rendered, or something else
without a word: no policy, images from another registry, node pods on nodes without GPUs. Without any other the templates take none, or
its default (:mod:`hack.chart.defaults`)."""


def values_schema() -> Schema:
    """The whole schema. Every object is closed: a misspelt value must not be ignored."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart laneway",
        **_closed(
            nameOverride=_NAME,
            fullnameOverride=_NAME,
            commonLabels=_NAMES,
            crds=_closed(enabled=_FLAG),
            image=_closed(
                registry=_TEXT, tag=_TEXT, pullPolicy={"enum": ["Always", "IfNotPresent", "Never"]}
            ),
            imagePullSecrets={"type": "array", "items": _closed(name=_TEXT)},
            sharing=_SHARING,
            gpu=_gpu(),
            operator=_operator(),
            node=_node(),
            nodeGroups={
                "type": "object",
                "propertyNames": {"pattern": "^[a-z0-9]([-a-z0-9]{0,18}[a-z0-9])?$"},
                "additionalProperties": _node_group(),
            },
            board=_board(),
            pods=_closed(admissionPolicy=_closed(enabled=_FLAG)),
            metrics=_metrics(),
            networkPolicy=_closed(enabled=_FLAG, **{"from": _OBJECTS}),
        ),
        # Of a chart that is a part of another: helm adds `global`, and reads `enabled` where the other's `condition` names it. By itself
        # this chart has no such switch.
        "patternProperties": {"^global$": {"type": "object"}, "^enabled$": {"const": True}},
        # Not in the parts themselves: the values of a node group have the schema of `node`, and are only what differs from it.
        "allOf": [_needed(_NEEDED)],
    }


def _closed(**properties: Schema) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _needed(tree: _Needed) -> Schema:
    if not tree:
        return {}
    return {"required": list(tree), "properties": {name: _needed(below) for name, below in tree.items()}}


def _gpu() -> Schema:
    simulated = _closed(
        gpus={"type": "array", "items": model_schema(SimulatedGPU)},
        nvlinks={
            "type": "array",
            "items": {
                "type": "array",
                "minItems": 2,
                "maxItems": 2,
                "items": {"type": "integer", "minimum": 0},
            },
        },
    )
    return _closed(source={"enum": ["nvml", "simulated"]}, simulated=simulated)


def _operator() -> Schema:
    config = model_schema(OperatorConfig)
    namespaces = {**config["properties"]["namespaces"], "uniqueItems": True}
    for decided in CHART_DECIDES["operator"]:
        del config["properties"][decided]
    for stage, known in STAGES.items():
        one = policy_schema(known)
        several = {"type": "array", "items": one}
        config["properties"]["scheduling"]["properties"][stage] = several if stage == "admission" else one
    config["properties"]["scheduling"]["properties"] |= dict.fromkeys(operator_config.REPLACED, _REPLACED)
    config["properties"]["scheduling"]["properties"]["placement"]["properties"]["policy"] = {
        "if": {"const": "lanes"},
        "then": _REPLACED,
        "else": config["properties"]["scheduling"]["properties"]["placement"]["properties"]["policy"],
    }
    return _closed(
        replicas={"type": "integer", "minimum": 0},
        namespaces=namespaces,
        config=config,
        image=_image(),
        resources=_resources(),
        podDisruptionBudget=_closed(enabled=_FLAG, maxUnavailable=_NUMBER_OR_PERCENT),
        **_container(),
        extraVolumes=_NAMED,
        podSecurityContext=_OBJECT,
        topologySpreadConstraints=_OBJECTS,
        **_pods(),
    )


def _node() -> Schema:
    config = model_schema(NodeConfig)
    for decided in CHART_DECIDES["node"]:
        del config["properties"][decided]
    config["properties"] |= dict.fromkeys(node_config.REPLACED, _REPLACED)
    strategy = _closed(
        type={"enum": ["RollingUpdate", "OnDelete"]},
        rollingUpdate=_closed(maxUnavailable=_NUMBER_OR_PERCENT, maxSurge={"const": 0}),
    )
    return _closed(
        namespace=_NAMESPACE,
        createNamespace=_FLAG,
        config=config,
        devicePlugin=_closed(image=_image(), resources=_resources(), **_container()),
        agent=_closed(
            image=_image(),
            resources=_resources(),
            capabilities={"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True},
            **_container(),
        ),
        client=_closed(image=_image(), resources=_resources(), securityContext=_OBJECT),
        kubeletFolder=_FOLDER,
        clientFolder=_FOLDER,
        runtimeSocket=_SOCKET,
        cdiFolder=_FOLDER_OR_NONE,
        nvidiaRuntimeFolder=_FOLDER_OR_NONE,
        runtimeClassName=_TEXT,
        podSecurityContext=_OBJECT,
        extraVolumes=_NAMED,
        admissionPolicy=_closed(enabled=_FLAG),
        mps=_closed(resources=_resources()),
        updateStrategy=strategy,
        **_pods(),
    )


def _node_group() -> Schema:
    """Schema of a group's changes to `node`."""
    names = ("namespace", "createNamespace", "admissionPolicy", "priorityClassName", "serviceAccount")
    common: Schema = {
        **dict.fromkeys(names, _OF_ALL_GROUPS),
        "config": {"properties": {"lanes": _OF_ALL_GROUPS}},
    }
    return {"allOf": [{"$ref": "#/properties/node"}, {"properties": common}]}


def _board() -> Schema:
    return _closed(
        enabled=_FLAG,
        replicas={"type": "integer", "minimum": 0},
        image=_image(),
        tlsSecretName=_TEXT,
        resources=_resources(),
        **{"from": _OBJECTS},
        **_container(),
        extraVolumes=_NAMED,
        podSecurityContext=_OBJECT,
        topologySpreadConstraints=_OBJECTS,
        **_pods(),
    )


def _metrics() -> Schema:
    monitor = _closed(enabled=_FLAG, interval=_DURATION, labels=_NAMES)
    return _closed(
        podMonitor=monitor,
        secure=_closed(
            enabled=_FLAG,
            image=_closed(
                repository={"type": "string", "minLength": 1}, tag={"type": "string", "minLength": 1}
            ),
            tlsSecret=_TEXT,
            resources=_resources(),
        ),
        serviceMonitor=_closed(**monitor["properties"], credentials=_SECRET_KEY, tlsConfig=_OBJECT),
        prometheusRule=_closed(
            enabled=_FLAG,
            labels=_NAMES,
            runbooks=_TEXT,
            disabled={
                "type": "object",
                "additionalProperties": _FLAG,
            },  # the template knows the alerts' names
            thresholds=_thresholds(),
        ),
        dashboards=_closed(enabled=_FLAG, labels=_NAMES, annotations=_NAMES),
    )


def _thresholds() -> Schema:
    number: Schema = {"type": "number", "minimum": 0}
    ratio: Schema = {"type": "number", "minimum": 0, "maximum": 1}
    return _closed(
        cycleSeconds={
            **number,
            "exclusiveMaximum": CYCLE_SECONDS[-1],
        },  # no quantile is above the last bucket
        waitingSeconds=number,
        gangRollbacks=number,
        revokedTurns=number,
        evictions=number,
        failedJobRatio=ratio,
        endedJobs={"type": "integer", "minimum": 1},
        apiErrorRatio=ratio,
    )


def _pods() -> dict[str, Schema]:
    return {
        "podAnnotations": _NAMES,
        "podLabels": _NAMES,
        "nodeSelector": _NAMES,
        "tolerations": {
            "type": "array",
            "items": _closed(
                key=_TEXT,
                operator={"enum": ["Exists", "Equal"]},
                value=_TEXT,
                effect={"enum": ["NoSchedule", "PreferNoSchedule", "NoExecute"]},
                tolerationSeconds={"type": "integer"},
            ),
        },
        "affinity": _closed(
            nodeAffinity={"type": "object"},
            podAffinity={"type": "object"},
            podAntiAffinity={"type": "object"},
        ),
        "priorityClassName": _TEXT,
        "serviceAccount": _closed(annotations=_NAMES),
    }


def _image() -> Schema:
    return _closed(repository={"type": "string", "minLength": 1}, digest=_DIGEST, tag=_TEXT)


def _resources() -> Schema:
    amounts: Schema = {"type": "object", "additionalProperties": _QUANTITY}
    return _closed(requests=amounts, limits=amounts)


def _container() -> dict[str, Schema]:
    """What is added to a container, and changed in its security context."""
    return {
        "env": _NAMED,
        "extraArgs": {"type": "array", "items": _TEXT},
        "extraVolumeMounts": _NAMED,
        "securityContext": _OBJECT,
    }


def policy_schema(known: Mapping[str, Any]) -> Schema:
    """Schema of a stage's policies by name, and of the options of each. A policy of another package has a dot in its name; the
    operator checks its options."""
    brought: Schema = {"type": "string", "pattern": plug_ins.NAME_PATTERN}
    return {
        **_closed(policy={"anyOf": [{"enum": sorted(known)}, brought]}, options={"type": "object"}),
        "required": ["policy"],
        "allOf": [
            {
                "if": {"properties": {"policy": {"const": name}}, "required": ["policy"]},
                "then": {"properties": {"options": _options(policy)}},
            }
            for name, policy in sorted(known.items())
        ],
    }


def _options(policy: Callable[..., object]) -> Schema:
    return _closed(
        **{
            to_camel(name): _bounded(policy, name, default)
            for name, default in registry.parameters(policy).items()
        }
    )


def _bounded(policy: Callable[..., object], name: str, default: object) -> Schema:
    """Schema of an option: the type of its default, and the bounds that the policy shows when it refuses -1, 0 or 2."""
    schema = _like(default)
    if isinstance(default, Mapping):
        schema["additionalProperties"] |= _bounds(lambda value: policy(**{name: {"a": value}}))
        return schema
    if isinstance(default, (bool, str, tuple)):
        return schema
    return schema | _bounds(lambda value: policy(**{name: value}))


def _bounds(made: Callable[[int], object]) -> Schema:
    def refused(value: int) -> bool:
        try:
            made(value)
        except ValueError:
            return True
        return False

    bounds: Schema = {}
    if refused(-1):
        bounds |= {"exclusiveMinimum": 0} if refused(0) else {"minimum": 0}
    if refused(2) and not refused(1):
        bounds["maximum"] = 1
    return bounds


def _like(default: object) -> Schema:
    if isinstance(default, bool):
        return _FLAG
    if isinstance(default, str):
        return _TEXT
    if isinstance(default, tuple):
        return {"type": "array", "items": {"type": "number"}}
    if isinstance(default, Mapping):
        return {"type": "object", "additionalProperties": {"type": "number"}}
    if default is None:
        return {"type": ["number", "null"]}
    return {"type": "integer" if isinstance(default, int) else "number"}


def model_schema(model: type[BaseModel]) -> Schema:
    """A model's JSON schema, references written out, without pydantic's titles and defaults."""
    raw = model.model_json_schema(by_alias=True)
    definitions: dict[str, Schema] = raw.get("$defs", {})

    def written_out(schema: Any) -> Any:
        if isinstance(schema, list):
            return [written_out(item) for item in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            return written_out(
                {
                    **definitions[schema["$ref"].rsplit("/", 1)[1]],
                    **{k: v for k, v in schema.items() if k != "$ref"},
                }
            )
        result = {
            key: written_out(value)
            for key, value in schema.items()
            if key not in ("title", "default", "$defs", "properties")
        }
        if "properties" in schema:
            result["properties"] = {name: written_out(field) for name, field in schema["properties"].items()}
        return result

    schema: Schema = written_out(raw)
    return schema
