"""Every command that a document, message, alert or note quotes can be run as it is written.

Here each is parsed: Laneway's own programs by their parsers, make's targets by a dry run. Real kubectl and helm run theirs in
`tests/integration/charts/test_quoted_commands.py`.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
import subprocess
from collections.abc import Callable
from functools import cache
from typing import Any, NoReturn

import pytest
from laneway.cli.main import main as cli
from laneway.node_agent.main import main as node_agent

from hack.verify.quoted_commands import ROOT, QuotedCommand, commands_in, quoted_commands

_OWN_PROGRAMS: dict[str, Callable[[list[str]], int]] = {
    "laneway": cli,
    "/opt/venv/bin/laneway-node-agent": node_agent,
}
_REDIRECTION = re.compile(r" > \S+$")


class Parsed(BaseException):
    """The program's parser accepted its arguments; nothing else of the program may run."""


@pytest.fixture(autouse=True)
def parse_only(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = argparse.ArgumentParser.parse_args

    def parse_and_stop(parser: argparse.ArgumentParser, *arguments: Any, **options: Any) -> NoReturn:
        parse(parser, *arguments, **options)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_stop)


def problem(command: QuotedCommand, capture: pytest.CaptureFixture[str]) -> str:
    """Returns what is wrong with a command, or nothing."""
    words = shlex.split(_REDIRECTION.sub("", command.text))
    if words[0] == "kubectl" and "laneway" in words:
        if words[1] != "laneway":
            return "kubectl requires a plugin's name before all flags"
        words = words[1:]
    if "--" in words and words[0] not in _OWN_PROGRAMS:
        words = words[words.index("--") + 1 :]
    if words[0] in _OWN_PROGRAMS:
        return _parsed(words, command.complete, capture)
    if words[0] == "make":
        return _make_problem(tuple(words[1:]))
    if words[0].endswith(("python", "python3", "pytest")):
        return _python_problem(words)
    return ""


def _parsed(words: list[str], complete: bool, capture: pytest.CaptureFixture[str]) -> str:
    if not complete and len(words) == 1:
        return ""
    try:
        _OWN_PROGRAMS[words[0]](words[1:])
    except Parsed:
        return ""
    except SystemExit as exit_:
        if exit_.code in (None, 0):  # --help and --version
            return ""
        error = capture.readouterr().err.strip().splitlines()[-1]
        return "" if not complete and "arguments are required" in error else error
    return "its parser was not reached"


@cache
def _make_problem(arguments: tuple[str, ...]) -> str:
    variables = {argument.partition("=")[0] for argument in arguments if "=" in argument}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    unknown = [name for name in variables if not re.search(rf"^{name} \?= ?", makefile, re.MULTILINE)]
    if unknown:
        return f"the Makefile has no variable {unknown[0]}"
    done = subprocess.run(["make", "-n", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def _python_problem(words: list[str]) -> str:
    if words[1] == "-m":
        return "" if importlib.util.find_spec(words[2]) else f"there is no module {words[2]}"
    paths = [word for word in words[1:] if "/" in word and "FILE" not in word]
    missing = [path for path in paths if not (ROOT / path).exists()]
    return f"there is no {missing[0]}" if missing else ""


@pytest.fixture(scope="module")
def quoted() -> tuple[QuotedCommand, ...]:
    """All of the repository's."""
    return quoted_commands()


def test_every_quoted_command_can_be_run(
    quoted: tuple[QuotedCommand, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    problems = {str(command): found for command in quoted if (found := problem(command, capsys))}
    assert problems == {}


def test_commands_are_found_in_every_kind_of_file(quoted: tuple[QuotedCommand, ...]) -> None:
    places = "\n".join(command.place for command in quoted)
    for name in ("README.md", "docs/node.md", "alerts.yaml", "NOTES.txt", "README.md.gotmpl", "diagnosis.py"):
        assert name in places, name


@pytest.mark.parametrize(
    ("name", "text", "commands"),
    [
        ("a.md", "```sh\nmake test \\\n  ONLY=x   # both\n```\n", ["make test ONLY=x"]),
        ("a.md", "```console\n$ kubectl get tj\nNAME\n```\n", ["kubectl get tj"]),
        ("a.md", "run `kubectl\nget pods` or `makefile`", ["kubectl get pods"]),
        ("a.md", "```\nmake test: skipped\n```\n", []),
        ("NOTES.txt", "  kubectl -n {{ .Release.Namespace }} get pods\n", ["kubectl -n X get pods"]),
        ("a.py", "print('install it (helm install laneway charts/laneway)')", ["helm install laneway charts/laneway"]),
        ("a.py", 'raise E(f"run `make {target}` first")', ["make X"]),
        ("a.py", '"""kubectl get is slow."""', []),
        (
            "alerts.yaml",
            "groups: [{rules: [{alert: A, annotations: {d: 'see `kubectl get gpunode {{ $labels.node }}`'}}]}]",
            ["kubectl get gpunode X"],
        ),
    ],
)  # fmt: skip
def test_what_counts_as_a_command(name: str, text: str, commands: list[str]) -> None:
    assert [command.text for command in commands_in(name, text)] == commands


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kubectl -n team laneway get job", "plugin's name before all flags"),
        ("kubectl laneway get job --no-such-option", "unrecognized arguments"),
        ("kubectl laneway describe job", "invalid choice"),
        ("laneway get", "arguments are required"),
        ("make no-such-target", "No rule to make target"),
        ("make test NO_SUCH=1", "no variable NO_SUCH"),
        ("python -m hack.no_such", "no module"),
        ("pytest tests/no_such", "there is no"),
    ],
)
def test_a_wrong_command_is_found(text: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert expected in problem(QuotedCommand("here", text, complete=True), capsys)
