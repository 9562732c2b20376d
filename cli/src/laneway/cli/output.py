"""Writes tables for people, and JSON, YAML and names for programs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from typing import Any

import yaml
from laneway.cli.exit_codes import CommandError, exit_code_of
from laneway.sdk import LanewayError

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What steers a terminal or turns the direction of a text; not a tab or the end of a line."""


_OTHER_IN_GO = re.compile(r"[-+]?[._]*[0-9][0-9a-fA-FoOxX_.+-]*|[yYnN]")
"""What kubectl's YAML may take for a number or a boolean, such as 3e-4, where Python's takes it for a text."""


def printable(text: str) -> str:
    """Return a text with its control characters as escapes: words of users, such as a worker's last ones, must not steer a terminal."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def report(program: str, error: CommandError | LanewayError) -> int:
    """Write an error in one sentence that users can understand, and return its exit code."""
    print(printable(f"{program}: {error}"), file=sys.stderr)
    return exit_code_of(error)


def write_object(value: Any, output: str) -> None:
    """Write an object as ``json`` or ``yaml``."""
    if output == "json":
        json.dump(value, sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        yaml.dump(value, sys.stdout, _Dumper, sort_keys=False, allow_unicode=True)


def write_document(value: Any, output: str) -> None:
    """Write an object as one of a stream, which kubectl reads: JSON, or YAML after ``---``."""
    if output == "yaml":
        sys.stdout.write("---\n")
    write_object(value, output)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows in aligned columns."""
    lines = [list(header), *[[printable(cell) for cell in row] for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines, such as a script, as it reads, and quotes what kubectl would take for something else."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else "'" if _OTHER_IN_GO.fullmatch(value) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)
