"""Names and labels that YAML would take for numbers or booleans: namespace 456, node pool 1, label true."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.chart.generated import CHART
from hack.verify.chart import rendered

SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
MARK = "x"
"""With it in front, the same values are strings in YAML."""

ON = """
crds: {enabled: false}
node: {config: {enforcement: {level: MPS}}}
board: {enabled: true}
metrics:
  secure: {enabled: true}
  serviceMonitor: {enabled: true}
  prometheusRule: {enabled: true}
"""
OPENSHIFT = ("--api-versions", "security.openshift.io/v1")


def accepts(schema: dict[str, Any], value: str) -> bool:
    """Whether a string may be a value."""
    if schema.get("type") != "string" or "enum" in schema:
        return False
    return all(re.search(schema.get("pattern", ""), each) for each in (value, MARK + value))


def filled(schema: dict[str, Any], value: str, write: str) -> Any:
    """Values with `write` wherever a string may be `value`, in maps also as the key; None for values without such a place."""
    if accepts(schema, value):
        return write
    if schema.get("type") == "array":
        item = filled(schema.get("items", {}), value, write)
        required = schema.get("items", {}).get("required", [])
        return None if item is None or any(key not in item for key in required) else [item]
    fields = {key: filled(field, value, write) for key, field in schema.get("properties", {}).items()}
    if isinstance(schema.get("additionalProperties"), dict) and not fields:
        fields = {write: filled(schema["additionalProperties"], value, write)}
    return {key: field for key, field in fields.items() if field is not None} or None


def merged(values: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    both = {
        key: merged(values[key], more[key])
        for key in values.keys() & more.keys()
        if isinstance(more[key], dict)
    }
    return {**values, **more, **both}


def unmarked(value: Any) -> Any:
    """The same without the mark: a string stays one. A file in a ConfigMap is read, and the hashes of these files are left out."""
    if isinstance(value, dict):
        read = {key: yaml.safe_load(each) if key.endswith(".yaml") else each for key, each in value.items()}
        return {
            unmarked(key): unmarked(each) for key, each in read.items() if key != "laneway.dev/config-hash"
        }
    if isinstance(value, list):
        return [unmarked(each) for each in value]
    return re.sub(f"{MARK}(4|true)", r"\1", value) if isinstance(value, str) else value


@pytest.mark.parametrize("value", ["456", "true"])
def test_strings_of_the_values_are_strings_in_the_objects(tmp_path: Path, value: str) -> None:
    def objects(write: str, release: str) -> Iterator[Any]:
        values = merged(filled(SCHEMA, value, write), yaml.safe_load(ON))
        values["nodeGroups"] = {write: {"nodeSelector": {write: write}}}
        path = tmp_path / "values.yaml"
        path.write_text(json.dumps(values), encoding="utf-8")
        return yaml.safe_load_all(rendered(path, "--namespace", release, *OPENSHIFT, release=release))

    found = list(objects(value, "4"))
    kinds = {each["kind"] for each in found if each}
    assert {
        "DaemonSet",
        "Deployment",
        "Namespace",
        "NetworkPolicy",
        "PrometheusRule",
        "ServiceMonitor",
    } <= kinds
    assert unmarked(found) == unmarked(list(objects(MARK + value, f"{MARK}4")))
