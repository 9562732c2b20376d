"""Collects the commands that the repository's documents, messages, alerts and notes quote, so that tests can run them.

A command is a line of a fenced `sh`, `bash` or `console` block, a code span, a quoted span of a Python string, or a line of the chart's
NOTES.txt, if it begins with one of `PROGRAMS`. In a Python string, kubectl or helm with a verb counts without quotes as well.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = (
    "kubectl",
    "laneway",
    "helm",
    "make",
    "python",
    "python3",
    "pytest",
    ".venv/bin/python",
    ".venv/bin/pytest",
)

_PROGRAM = "|".join(re.escape(program) for program in PROGRAMS)
_SPAN = re.compile(rf"(`{{1,2}}|(?<!\w)['\"])((?:{_PROGRAM})\s[^`'\"]*?)\1", re.DOTALL)
_NAMED = re.compile(rf"(?<![\w.])(?:{_PROGRAM})(?![\w.])")
_CODE_SPAN = re.compile(rf"`((?:{_PROGRAM})\s[^`]*)`")
_UNQUOTED = re.compile(
    r"(?<![`'\"\w])((?:kubectl (?:-n |laneway |apply|create|delete|describe|explain|get|label|logs)|helm (?:install|upgrade|template) )"
    r"\S*(?:(?<![,;:)])\s+[^\s(]+)*)"
)
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_TEMPLATE = re.compile(r"{{.*?}}", re.DOTALL)
_PLACEHOLDER = re.compile(r"<[a-z ]+>")
_COMMENT = re.compile(r"\s#\s.*$|\s{2,}#.*$")
_HERE_DOCUMENT = re.compile(r"^cat <<EOF \| (.*)$")


@dataclass(frozen=True)
class QuotedCommand:
    """A command and its place. Only a `complete` one must have all its arguments: prose may name a verb alone."""

    place: str
    text: str
    complete: bool

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


@cache
def quoted_commands() -> tuple[QuotedCommand, ...]:
    """Returns the commands of all tracked files, without duplicates in a file."""
    found: dict[QuotedCommand, None] = {}
    for name in _tracked("*.md", "*.md.gotmpl", "*.py", "*/NOTES.txt", "*/alerts.yaml", "*/values.yaml"):
        text = (ROOT / name).read_text(encoding="utf-8")
        found |= dict.fromkeys(commands_in(name, text))
    return tuple(found)


def commands_in(name: str, text: str) -> Iterator[QuotedCommand]:
    """Yields the commands of one file, whose kind its name shows."""
    if name.endswith((".md", ".gotmpl")):
        yield from _in_markdown(name, text)
    elif name.endswith(".py"):
        yield from _in_python(name, text)
    elif name.endswith("NOTES.txt"):
        yield from _lines(name, text)
    else:
        yield from _in_rules(name, text)


def _tracked(*patterns: str) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    names = (name for name in listed.stdout.split("\0") if name and not name.startswith("tests/"))
    return sorted(name for name in names if (ROOT / name).is_file())


def _in_markdown(name: str, text: str) -> Iterator[QuotedCommand]:
    for language, block in _BLOCK.findall(text):
        if language == "console":
            prompts = [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]
            yield from _lines(name, "\n".join(prompts))
        elif language in ("sh", "bash"):
            yield from _lines(name, block)
    for command in _CODE_SPAN.findall(_BLOCK.sub("", text)):
        yield _command(name, command, complete=False)


def _lines(name: str, text: str) -> Iterator[QuotedCommand]:
    for line in text.replace("\\\n", " ").splitlines():
        command = _HERE_DOCUMENT.sub(r"\1", line.strip())
        if command.startswith(tuple(f"{program} " for program in PROGRAMS)):
            yield _command(name, _COMMENT.sub("", command), complete=True)


def _in_rules(name: str, text: str) -> Iterator[QuotedCommand]:
    document = yaml.safe_load(text)
    for group in document.get("groups", []):
        for rule in group["rules"]:
            for annotation in rule["annotations"].values():
                for command in _CODE_SPAN.findall(annotation):
                    yield _command(f"{name} {rule['alert']}", command, complete=True)
    for command in _CODE_SPAN.findall(
        "\n".join(line for line in text.splitlines() if line.lstrip().startswith("#"))
    ):
        yield _command(name, command, complete=False)


def _in_python(name: str, text: str) -> Iterator[QuotedCommand]:
    """Messages have complete commands, unless they are f-strings. Docstrings are prose."""
    if not _NAMED.search(text):
        return  # to walk all of a syntax tree takes a hundred times as long
    nodes = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr | ast.Constant | ast.JoinedStr)
    ]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            message = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            message = node.value
        else:
            continue
        quoted = [command for _, command in _SPAN.findall(message)]
        unquoted = [] if id(node) in docstrings else _UNQUOTED.findall(_SPAN.sub("", message))
        complete = isinstance(node, ast.Constant) and id(node) not in docstrings
        for command in (*quoted, *unquoted):
            yield _command(f"{name}:{node.lineno}", command, complete=complete)


def _command(place: str, text: str, *, complete: bool) -> QuotedCommand:
    """Replaces placeholders by a word. A command that ends with an ellipsis is incomplete."""
    shown = " ".join(_PLACEHOLDER.sub("X", _TEMPLATE.sub("X", text)).split())
    elided = shown.endswith("…")
    shown = shown.rstrip(" …,.;:")
    if ")" in shown and "(" not in shown:
        shown = shown.rstrip(")")
    return QuotedCommand(place, shown, complete and not elided)
