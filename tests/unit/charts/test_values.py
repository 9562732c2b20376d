"""The table and the schema of the chart's values say what `values.yaml` holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from hack.chart.__main__ import CHART, stale_files
from hack.chart.values_schema import values_schema
from hack.chart.values_table import BEGIN, END, table, with_table

VALUES = (CHART / "values.yaml").read_text(encoding="utf-8")


def test_generated_files_are_current() -> None:
    assert stale_files() == []


def test_a_row_for_each_value_with_its_default_and_its_comment() -> None:
    rows = table("a:\n  b: 1   # how many\n  c: {}\nd: [x]  # which\n").splitlines()
    assert rows[2:] == ["| `a.b` | `1` | how many |", "| `a.c` | `{}` |  |", '| `d` | `["x"]` | which |']


def test_the_table_goes_between_its_marks() -> None:
    readme = f"before\n{BEGIN}old\n{END}after\n"
    assert with_table(readme, "a: 1\n") == f"before\n{BEGIN}{table('a: 1')}{END}after\n"


def test_a_readme_without_the_marks_is_an_error() -> None:
    with pytest.raises(ValueError, match="has to hold the lines"):
        with_table("nothing", VALUES)


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
