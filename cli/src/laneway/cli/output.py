"""Writes tables for people, and JSON, YAML and names for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import yaml


def write_object(value: Any, output: str, to: TextIO | None = None) -> None:
    """Write an object as ``json`` or ``yaml``."""
    out = to or sys.stdout
    if output == "json":
        json.dump(value, out, indent=2, ensure_ascii=False)
        out.write("\n")
    else:
        yaml.dump(value, out, _Dumper, sort_keys=False, allow_unicode=True)


def write_objects(values: Sequence[dict[str, Any]], output: str) -> None:
    """Write objects so that kubectl reads them: YAML documents, or a JSON list of several."""
    if output == "json":
        one = values[0] if len(values) == 1 else {"apiVersion": "v1", "kind": "List", "items": list(values)}
        write_object(one, output)
    else:
        yaml.dump_all(values, sys.stdout, _Dumper, sort_keys=False, allow_unicode=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows in aligned columns."""
    lines = [list(header), *[list(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines, such as a script, as it reads."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)
