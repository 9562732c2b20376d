"""The schema of ``spec.template``: Kubernetes' own PodTemplateSpec, and Laneway's rules on top of it.

``pod_template.json`` beside this file holds the part of the API server's OpenAPI document that describes pods, without
descriptions. ``python -m laneway.api.generate_crds --openapi FILE`` writes it again for another version of Kubernetes.
"""

from __future__ import annotations

import copy
from typing import Any

from laneway.api import names
from laneway.api.reserved_names import OPERATORS_ANNOTATIONS, OPERATORS_LABELS
from laneway.api.schema import rules

Schema = dict[str, Any]

_ROOT = "io.k8s.api.core.v1.PodSpec"
_REFERENCE = "#/definitions/"
_KEPT = (
    "type",
    "format",
    "required",
    "items",
    "additionalProperties",
    "properties",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)

_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_QUANTITY_PATTERN = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
"""As Kubernetes' own controller-gen writes it."""

MAX_GRACE_PERIOD_SECONDS = 3600


def _without(field: str, keys: tuple[str, ...]) -> tuple[str, str]:
    """Return the CEL rule of labels or annotations that are not the template's to set."""
    return (
        f"!has(self.{field}) || !{list(keys)}.exists(key, key in self.{field})",
        f"{field} {', '.join(keys)} are forbidden: Laneway sets them; leave them out, or use another prefix",
    )


_MAX_CONTAINERS = 16
_MAX_RESOURCES = 32
_METADATA: Schema = {
    "type": "object",
    "properties": {
        # Written as null by `kubectl create --dry-run=client -o yaml`.
        "creationTimestamp": {"type": "string", "format": "date-time", "nullable": True},
        **{
            name: {
                "type": "object",
                "maxProperties": 64,
                "additionalProperties": {"type": "string", "maxLength": 16384},
            }
            for name in ("annotations", "labels")
        },
    },
    **rules(_without("labels", OPERATORS_LABELS), _without("annotations", OPERATORS_ANNOTATIONS)),
}


def pod_definitions(openapi: Schema) -> dict[str, Schema]:
    """Return the definitions that a pod's spec consists of, by name, from an API server's OpenAPI v2 document."""
    found: dict[str, Schema] = {}
    missing = [_ROOT]
    while missing:
        name = missing.pop()
        if name not in found:
            found[name] = _stripped(openapi["definitions"][name])
            missing += _references(found[name])
    return dict(sorted(found.items()))


def _stripped(definition: Schema) -> Schema:
    if "$ref" in definition:
        return {"$ref": definition["$ref"]}
    result = {key: definition[key] for key in _KEPT if key in definition}
    for key in ("items", "additionalProperties"):
        if key in result:
            result[key] = _stripped(result[key])
    if "properties" in result:
        result["properties"] = {name: _stripped(field) for name, field in result["properties"].items()}
    return result


def _references(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["$ref"].removeprefix(_REFERENCE)] if "$ref" in schema else []
        return [*own, *(name for value in schema.values() for name in _references(value))]
    return []


def pod_template_schema(definitions: dict[str, Schema]) -> Schema:
    """Return the structural schema of ``spec.template``.

    Args:
        definitions: the content of ``pod_template.json``.
    """
    spec = _structural(definitions[_ROOT], definitions)
    fields = spec["properties"]
    # A pod is not created with ephemeral containers.
    del fields["ephemeralContainers"]
    fields["containers"].update(minItems=1, maxItems=_MAX_CONTAINERS)
    container = fields["containers"]["items"]
    container["required"] = ["name", "image"]
    container["properties"]["name"]["maxLength"] = 63
    container["properties"]["image"].update(minLength=1, maxLength=1024)
    for kind in ("limits", "requests"):
        container["properties"]["resources"]["properties"][kind]["maxProperties"] = _MAX_RESOURCES
    container.update(
        rules(
            (
                "!has(self.resources) || !has(self.resources.limits) || "
                f"!('{names.GPU_PERCENT}' in self.resources.limits || 'nvidia.com/gpu' in self.resources.limits)",
                f"{names.GPU_PERCENT} and nvidia.com/gpu are forbidden here: set spec.gpus, and Laneway adds the share",
            ),
        )
    )
    for name, length in (("restartPolicy", 32), ("nodeName", 253), ("priorityClassName", 253)):
        fields[name]["maxLength"] = length
    fields["terminationGracePeriodSeconds"].update(minimum=0, maximum=MAX_GRACE_PERIOD_SECONDS)
    spec.update(
        rules(
            (
                "!has(self.restartPolicy) || self.restartPolicy == 'Never'",
                "restartPolicy must be Never or left out: Laneway restarts the whole gang, see spec.backoffLimit",
            ),
            (
                "!has(self.nodeName)",
                "nodeName is forbidden: Laneway chooses the node; to narrow the choice set nodeSelector",
            ),
            (
                "!has(self.hostname)",
                "hostname is forbidden: Laneway sets it to the name of the worker's pod, JOB-RANK; leave it out, "
                "and to choose it choose the job's name",
            ),
            (
                "!has(self.subdomain)",
                "subdomain is forbidden: Laneway sets it to its Service's name, so that workers reach each other as "
                "JOB-RANK.laneway; leave it out",
            ),
        )
    )
    return {
        "type": "object",
        "required": ["spec"],
        "properties": {"metadata": copy.deepcopy(_METADATA), "spec": spec},
    }


def _structural(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """Return a definition with its references resolved, in the form that a CRD allows."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        if name == _QUANTITY:
            return {"pattern": _QUANTITY_PATTERN, "x-kubernetes-int-or-string": True}
        return _structural(definitions[name], definitions)
    if schema.get("format") == "int-or-string":
        return {"x-kubernetes-int-or-string": True}
    result = {
        key: copy.deepcopy(value)
        for key, value in schema.items()
        if key not in ("items", "additionalProperties", "properties")
    }
    for key in ("items", "additionalProperties"):
        if key in schema:
            result[key] = _structural(schema[key], definitions)
    if "properties" in schema:
        result["properties"] = {
            name: _structural(field, definitions) for name, field in schema["properties"].items()
        }
    # A CRD allows a list of kind map only where each key is required or has a default; a port's protocol has one.
    if "protocol" in result.get("properties", {}) and "containerPort" in result["properties"]:
        result["properties"]["protocol"]["default"] = "TCP"
    if result.get("x-kubernetes-list-type") == "map" and not _has_keys(result):
        result["x-kubernetes-list-type"] = "atomic"
        del result["x-kubernetes-list-map-keys"]
    return result


def _has_keys(schema: Schema) -> bool:
    items = schema["items"]
    return all(
        key in items.get("required", ()) or "default" in items["properties"][key]
        for key in schema["x-kubernetes-list-map-keys"]
    )
