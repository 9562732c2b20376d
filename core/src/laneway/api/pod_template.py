"""The part of PodTemplateSpec that Laneway has rules about; the API server checks the rest when the pod is created."""

from __future__ import annotations

from typing import Any

from laneway.api.names import GPU_PERCENT
from laneway.api.schema import rules

_ANY: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

_LIMITS: dict[str, Any] = {
    "type": "object",
    "maxProperties": 32,
    "additionalProperties": {"x-kubernetes-int-or-string": True},
}

_CONTAINER: dict[str, Any] = {
    **_ANY,
    "required": ["name", "image"],
    "properties": {
        "name": {"type": "string", "maxLength": 63},
        "image": {"type": "string", "minLength": 1, "maxLength": 1024},
        "resources": {**_ANY, "properties": {"limits": _LIMITS, "requests": _LIMITS}},
    },
    **rules(
        (
            "!has(self.resources) || !has(self.resources.limits) || "
            f"!('{GPU_PERCENT}' in self.resources.limits || 'nvidia.com/gpu' in self.resources.limits)",
            f"do not ask for {GPU_PERCENT} or nvidia.com/gpu here: write spec.gpus, and Laneway adds the share",
        ),
    ),
}

POD_TEMPLATE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["spec"],
    "additionalProperties": None,
    "properties": {
        "metadata": {
            **_ANY,
            "properties": {
                name: {
                    "type": "object",
                    "maxProperties": 64,
                    "additionalProperties": {"type": "string", "maxLength": 16384},
                }
                for name in ("labels", "annotations")
            },
        },
        "spec": {
            **_ANY,
            "required": ["containers"],
            "properties": {
                "containers": {"type": "array", "minItems": 1, "maxItems": 16, "items": _CONTAINER},
                "restartPolicy": {"type": "string", "maxLength": 32},
                "nodeName": {"type": "string", "maxLength": 253},
                "schedulerName": {"type": "string", "maxLength": 253},
            },
            **rules(
                (
                    "!has(self.restartPolicy) || self.restartPolicy == 'Never'",
                    "restartPolicy: Laneway restarts the whole gang itself (spec.backoffLimit): "
                    "write Never or leave it out",
                ),
                (
                    "!has(self.nodeName)",
                    "nodeName: Laneway chooses the node: leave it out; to narrow the choice write nodeSelector",
                ),
            ),
        },
    },
}
"""JSON schema of ``spec.template``. ``additionalProperties`` is removed: the field is a mapping in Python only."""
