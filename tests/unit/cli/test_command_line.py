"""The command line: exit codes and wrong input."""

from __future__ import annotations

import json
import re
import socket
import threading
from argparse import _SubParsersAction
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path

import pytest
from laneway.cli import exit_codes
from laneway.cli.durations import parse_duration
from laneway.cli.exit_codes import CommandError
from laneway.cli.main import command_parser, main, parse
from laneway.cli.verbs.wait import exit_code

from hack.reference.cli import cli_page
from tests.support.training_jobs import a_condition, a_job

REPEATED = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in pairwise("abcdefgh")
)
"""Some hundred characters that stand for 10^8."""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty: write a TrainingJob"),
        ("- 1", "document 1: it is not an object"),
        ("{a: [", "is not valid YAML"),
        (
            "apiVersion: v1\nkind: Pod",
            "it is a Pod of v1; submit accepts TrainingJobs of laneway.dev/v1alpha1",
        ),
        ("apiVersion: laneway.dev/v1alpha1\nkind: TrainingJob", "it has no metadata.name"),
        (
            "apiVersion: laneway.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: a, namespace: 5}",
            "document 1: its metadata.namespace is 5, which is no text: write it in quotes",
        ),
        ("metadata:\n  name: a\n  name: b", "the key name comes twice"),
        ("[" * 5000, "is not valid YAML"),
        ("a: &a {b: *a}", "document 1: it cannot be written as JSON: Circular reference"),
        ("a: !!binary aGVsbG8=", "document 1: it cannot be written as JSON: Object of type bytes"),
        (REPEATED, "document 1: it has more than 4,000,000 characters as JSON"),
    ],
)
def test_errors_of_manifests_say_what_to_write(
    tmp_path: Path, text: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text, encoding="utf-8")
    assert main(["submit", "-f", str(path)]) == exit_codes.USAGE
    assert says in capsys.readouterr().err


def test_a_missing_kubeconfig_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--kubeconfig", str(tmp_path / "none")]) == exit_codes.UNREACHABLE
    assert "no cluster is configured" in capsys.readouterr().err


def kubeconfig_of(server: str, tmp_path: Path) -> str:
    path = tmp_path / "config"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("server", "says"),
    [
        ("http://127.0.0.1:9", "Connection refused"),
        ("https://127.0.0.1:9", "Connection refused"),
        ("http://no-such-host.invalid", "its name is not known"),
    ],
)
def test_an_unreachable_cluster_is_reported_in_a_sentence(
    server: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", "--kubeconfig", kubeconfig_of(server, tmp_path)]) == exit_codes.UNREACHABLE
    assert capsys.readouterr().err == f"laneway: cannot reach the cluster at {server}: {says}\n"


@pytest.mark.parametrize("text", ["{", "{apiVersion: v1, kind: Config}"])
def test_a_wrong_kubeconfig_is_reported(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config"
    path.write_text(text, encoding="utf-8")
    assert main(["list", "--kubeconfig", str(path)]) == exit_codes.UNREACHABLE
    assert "no cluster is configured" in capsys.readouterr().err


def test_a_web_server_is_told_from_an_api_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that http.server calls
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        serving = threading.Thread(target=server.handle_request)
        serving.start()
        address = f"http://127.0.0.1:{server.server_port}"
        code = main(["list", "--kubeconfig", kubeconfig_of(address, tmp_path)])
        serving.join()
    assert code == exit_codes.UNREACHABLE
    assert "it answers, and is no API server" in capsys.readouterr().err


def test_a_server_that_closes_connections_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"https://127.0.0.1:{server.getsockname()[1]}"
        closing = threading.Thread(target=lambda: [server.accept()[0].close() for _ in range(2)])
        closing.start()
        code = main(["list", "--kubeconfig", kubeconfig_of(address, tmp_path)])
        closing.join()
    assert code == exit_codes.UNREACHABLE
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"laneway: cannot reach the cluster at {address}: ")
    assert "Max retries" not in line


@pytest.mark.parametrize(
    "words",
    [
        ["list", "-n", "x", "-o", "json", "-l", "a=b", "-A", "-w"],
        ["-n", "x", "-o", "json", "-l", "a=b", "-A", "-w", "list"],
        ["--namespace=x", "-w", "-o", "json", "list", "-A", "--selector", "a=b"],
        ["-n", "list", "-o", "json", "-l", "a=b", "list", "-w", "-A", "-n", "x"],
    ],
)
def test_flags_stand_before_or_after_the_verb(words: list[str]) -> None:
    parsed = parse(command_parser("laneway"), words)
    assert (parsed.verb, parsed.namespace, parsed.output) == ("list", "x", "json")
    assert (parsed.selector, parsed.all_namespaces, parsed.watch) == ("a=b", True, True)


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["-w", "1", "-f", "logs", "queue"], {"verb": "logs", "name": "queue", "worker": 1, "follow": True}),
        (["-n", "x", "get", "list"], {"verb": "get", "name": "list", "namespace": "x"}),
        (["-w", "get", "a"], {"verb": "get", "name": "a", "watch": True}),
        (["-w", "-o", "name", "queue"], {"verb": "queue", "watch": True, "output": "name"}),
        (["top", "-A", "-w", "-o", "wide"], {"verb": "top", "all_namespaces": True, "watch": True, "output": "wide"}),
        (["-n", "x", "completion", "fish"], {"verb": "completion", "namespace": "x", "shell": "fish"}),
        (["--gpus", "0.5", "submit", "--", "python", "-n", "list"], {"verb": "submit", "gpus": "0.5", "namespace": None}),
    ],
)  # fmt: skip
def test_a_flag_belongs_to_its_verb(words: list[str], want: dict[str, object]) -> None:
    parsed = parse(command_parser("laneway"), words)
    assert {name: getattr(parsed, name) for name in want} == want


@pytest.mark.parametrize("words", [["-o", "list"], ["--unknown", "list"], ["list", "-o"]])
def test_wrong_flags_before_a_verb_are_named(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(words)
    assert exit_.value.code == exit_codes.USAGE
    assert words[0 if words[0] != "list" else 1] in capsys.readouterr().err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"laneway {version('laneway-cli')}\n"


def test_a_command_belongs_to_some_verbs_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["list", "--", "ls"])
    assert exit_.value.code == exit_codes.USAGE
    assert "list takes no command after --" in capsys.readouterr().err


def test_the_reference_page_has_each_verb_and_flag() -> None:
    page = cli_page()
    verbs = next(each for each in command_parser("laneway")._actions if isinstance(each, _SubParsersAction))
    for name, verb in verbs.choices.items():
        (section,) = re.findall(rf"\n## {name}\n(.*?)(?=\n## |\Z)", page, re.DOTALL)
        for flag in set(verb._option_string_actions) - {"-h", "--help"}:
            assert f"`{flag}" in section or f"`{flag}" in page.partition("\n## submit\n")[0], (name, flag)


def test_a_verb_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([])
    assert exit_.value.code == exit_codes.USAGE
    assert "VERB" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "want"), [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("1d", 86400)]
)
def test_durations(text: str, want: float) -> None:
    assert parse_duration(text) == want


@pytest.mark.parametrize("text", ["", "soon", "-5", "1.5h", "5w"])
def test_wrong_durations(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write 90s, 10m or 1h30m"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("story", "conditions", "wanted", "want"),
    [
        ("it still runs", [a_condition("Running")], "ended", None),
        ("it succeeded", [a_condition("Complete")], "ended", exit_codes.OK),
        ("it failed", [a_condition("Failed")], "ended", exit_codes.FAILED),
        ("it runs, as wanted", [a_condition("Running")], "Running", exit_codes.OK),
        ("it failed, as wanted", [a_condition("Failed")], "Failed", exit_codes.OK),
        ("it ended and will never run", [a_condition("Failed")], "Running", exit_codes.FAILED),
        ("it is still there", [a_condition("Complete")], "deleted", None),
    ],
)
def test_when_a_wait_is_over(
    story: str, conditions: list[dict[str, str]], wanted: str, want: int | None
) -> None:
    assert exit_code(a_job(conditions=conditions), None, "digits", wanted) == want, story


def test_a_deletion_ends_the_wait() -> None:
    assert exit_code(None, a_job(), "digits", "deleted") == exit_codes.OK
    with pytest.raises(CommandError, match="was deleted during the wait"):
        exit_code(None, a_job(), "digits", "ended")
    with pytest.raises(CommandError, match="not found"):
        exit_code(None, None, "digits", "ended")
