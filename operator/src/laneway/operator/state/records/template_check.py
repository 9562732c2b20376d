"""Whether a pod template has the right structure, as far as the operator reads it.

The CRD's schema refuses a wrong one, such as ``env: abc``. A job that was stored with an older CRD may still have one: the API
server would refuse its pods, and saying so before the job gets GPUs is better.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, "Schema"] | list["Schema"] | type

_EXPRESSIONS: Schema = [{"key": str, "operator": str, "values": [str]}]

_RESOURCES: Schema = {"limits": dict, "requests": dict}

_TEMPLATE: Schema = {
    "metadata": {"labels": dict, "annotations": dict},
    "spec": {
        "containers": [
            {
                "name": str,
                "env": [{"name": str, "value": str, "valueFrom": dict}],
                "resources": _RESOURCES,
                "volumeMounts": [{"name": str, "mountPath": str}],
            }
        ],
        "initContainers": [{"name": str, "env": [{"name": str}], "resources": _RESOURCES}],
        "resources": _RESOURCES,
        "overhead": dict,
        "nodeSelector": dict,
        "terminationGracePeriodSeconds": int,
        "tolerations": [{"key": str, "operator": str, "value": str, "effect": str}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": _EXPRESSIONS, "matchFields": _EXPRESSIONS}]
                }
            }
        },
    },
}

_WORDS: dict[type, str] = {
    dict: "a mapping",
    list: "a list",
    str: "a text (quote a number)",
    int: "a whole number",
}


def check_template(template: dict[str, Any]) -> None:
    """Check the parts of a template that the operator reads.

    Raises:
        ValueError: names the field, what was found and what to write.
    """
    _check(template, _TEMPLATE, "template")
    for kind in ("containers", "initContainers"):
        for number, container in enumerate(template["spec"].get(kind) or ()):
            for place, each in enumerate(container.get("env") or ()):
                if not each.get("name"):
                    raise ValueError(f"template.spec.{kind}[{number}].env[{place}] has no name: write one")


def _check(value: Any, schema: Schema, place: str) -> None:
    if value is None:
        return  # a key without a value is as good as none
    if isinstance(schema, type):
        if not isinstance(value, schema):
            raise ValueError(f"{place} is {value!r}: write {_WORDS[schema]}")
    elif isinstance(schema, list):
        if not isinstance(value, list):
            raise ValueError(f"{place} is {value!r}: write a list")
        for number, item in enumerate(value):
            if item is None:
                raise ValueError(f"{place}[{number}] is empty: write it, or leave it out")
            _check(item, schema[0], f"{place}[{number}]")
    else:
        if not isinstance(value, dict):
            raise ValueError(f"{place} is {value!r}: write a mapping")
        for key, inner in schema.items():
            _check(value.get(key), inner, f"{place}.{key}")
