"""Writes tables for people, and JSON and YAML for programs."""

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
        yaml.safe_dump(value, out, sort_keys=False, allow_unicode=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows in aligned columns."""
    lines = [list(header), *[list(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
