"""The table and the schema of the chart's values say what `values.yaml` holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import pytest
import yaml
from laneway.api.schema import Model
from pydantic import Field

from hack.chart.generated import CHART, stale_files
from hack.chart.values_schema import values_schema
from hack.chart.values_table import BEGIN, END, model_table, values_table, with_tables

VALUES = (CHART / "values.yaml").read_text(encoding="utf-8")


def test_generated_files_are_current() -> None:
    assert stale_files() == []


def test_a_row_for_each_value_with_its_default_and_its_comment() -> None:
    rows = values_table("a:\n  b: 1   # how many\n  c: {}\nd: [x]  # which\n").splitlines()
    assert rows[2:] == ["| `a.b` | `1` | how many |", "| `a.c` | `{}` |  |", '| `d` | `["x"]` | which |']


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


def test_a_table_goes_between_its_marks() -> None:
    readme = f"before\n{BEGIN}old\n{END}after\n"
    assert with_tables(
        readme.replace("{name}", "x"), {"x": "new\n"}
    ) == f"before\n{BEGIN}new\n{END}after\n".replace("{name}", "x")


def test_a_readme_without_the_marks_is_an_error() -> None:
    with pytest.raises(ValueError, match="has to hold the lines"):
        with_tables("nothing", {"values": ""})


def test_the_schema_names_exactly_the_values_that_there_are() -> None:
    """Where `values.yaml` has a group, so has the schema, with the same names; below `config` the components' models decide."""

    def compare(values: dict[str, Any], schema: dict[str, Any], path: str) -> None:
        assert set(values) == set(schema["properties"]), path
        for name, value in values.items():
            if isinstance(value, dict) and value and name not in ("requests", "limits", "rollingUpdate"):
                compare(value, schema["properties"][name], f"{path}.{name}")

    compare(yaml.safe_load(VALUES), values_schema(), "values")


def test_every_object_of_the_schema_is_closed_or_takes_names_of_ones_choice() -> None:
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
    assert [set(found["properties"]) for found in open_ones] == [
        {"name"},
        {"name"},
        {"name"},
    ]  # the env of three containers: core/v1 EnvVar
