"""The chart's generated files are current, and its schema and README cover every value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import yaml
from laneway.api.config_file import parse_config
from laneway.api.schema import Model
from laneway.scheduling.config.operator_config import OperatorConfig
from pydantic import Field

from hack.chart.config_page import QUOTA_EXAMPLE, model_table, options_table
from hack.chart.generated import CHART, generated_files, stale_files
from hack.chart.values_schema import policy_schema, values_schema

VALUES = (CHART / "values.yaml").read_text(encoding="utf-8")


def test_generated_files_are_current() -> None:
    assert stale_files(generated_files()) == []


def test_every_value_has_a_description() -> None:
    """helm-docs fills the table; a value without a `# --` comment has an empty last cell."""
    rows = [line for line in (CHART / "README.md").read_text(encoding="utf-8").splitlines() if " | `" in line]
    undescribed = [row for row in rows if not row.split("|")[-2].strip()]
    assert rows
    assert undescribed == []


def test_a_row_for_each_field_of_a_configuration_with_its_range() -> None:
    class Group(Model):
        how_many: int = Field(default=3, ge=1, le=9, description="A number.")
        which: Literal["one", "two"] = "one"

    class Config(Model):
        a_group: Group = Group(which="two")
        decided: bool = True

    rows = model_table(Config, frozenset({"decided"})).splitlines()
    assert rows[2:] == [
        "| `aGroup.howMany` | `3` | 1 … 9 | A number. |",
        '| `aGroup.which` | `"two"` | `one`, `two` |  |',
    ]


def test_every_option_of_a_policy_has_a_description() -> None:
    rows = options_table().splitlines()[2:]
    assert rows
    assert [row for row in rows if not row.split("|")[-2].strip()] == []


def test_the_example_of_quotas_is_a_configuration_of_the_operator() -> None:
    content = yaml.safe_dump(yaml.safe_load(QUOTA_EXAMPLE)["operator"]["config"])
    config = parse_config(content, OperatorConfig, "the example")
    assert [policy.policy for policy in config.scheduling.admission] == ["quota"]


def test_a_policy_takes_its_own_options_within_the_bounds_that_it_checks() -> None:
    @dataclass(frozen=True)
    class Ratios:
        part: float = 0.5
        above: float = 1.0

        def __post_init__(self) -> None:
            if not 0 <= self.part <= 1 or self.above <= 0:
                raise ValueError("write a number within the bounds")

    @dataclass(frozen=True)
    class Other:
        free: float = 0.0

    options = {
        choice["if"]["properties"]["policy"]["const"]: choice["then"]["properties"]["options"]
        for choice in policy_schema({"ratios": Ratios, "other": Other})["allOf"]
    }
    assert options["ratios"]["properties"] == {
        "part": {"type": "number", "minimum": 0, "maximum": 1},
        "above": {"type": "number", "exclusiveMinimum": 0},
    }
    assert options["other"]["properties"] == {"free": {"type": "number"}}


def test_the_schema_and_the_values_have_the_same_names() -> None:
    """Below `config` the components' models decide, and Kubernetes below the others."""
    of_kubernetes = ("requests", "limits", "rollingUpdate", "podSecurityContext", "securityContext")

    def compare(values: dict[str, Any], schema: dict[str, Any], path: str) -> None:
        assert set(values) == set(schema["properties"]), path
        for name, value in values.items():
            if isinstance(value, dict) and value and name not in of_kubernetes:
                compare(value, schema["properties"][name], f"{path}.{name}")

    compare(yaml.safe_load(VALUES), values_schema(), "values")


def test_every_object_of_the_schema_is_closed_or_takes_any_name() -> None:
    def objects(schema: Any) -> Iterator[dict[str, Any]]:
        if isinstance(schema, dict):
            if "properties" in schema and schema.get("type") == "object":
                yield schema
            for value in schema.values():
                yield from objects(value)
        elif isinstance(schema, list):
            for item in schema:
                yield from objects(item)

    open_ones = [
        found for found in objects(values_schema()) if found.get("additionalProperties") is not False
    ]
    # Variables, volumes and mounts, whose schemas are Kubernetes'.
    assert {frozenset(found["properties"]) for found in open_ones} == {frozenset({"name"})}
