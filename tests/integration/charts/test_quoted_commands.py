"""Real kubectl and helm understand every command for them that a document, message, alert or note quotes.

kubectl asks an API server on which the chart is installed. Objects that a command names need not exist, their kinds must. What would write
runs dry.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from laneway.cli.job_format import OPERATOR_SELECTOR

from hack.chart.generated import CHART, ROOT
from hack.chart.rules import rules
from hack.cluster.build import built
from hack.cluster.control_plane import LoopbackControlPlane
from hack.verify.chart import kubernetes_version, rendered_objects
from hack.verify.quoted_commands import QuotedCommand, quoted_commands

_WRITES = {
    "annotate",
    "apply",
    "cordon",
    "create",
    "delete",
    "drain",
    "label",
    "patch",
    "set",
    "taint",
    "uncordon",
}
_UNKNOWN_OBJECT = ("NotFound", "AlreadyExists", "no objects passed to apply", "does not exist", '" not found')
_NEEDS_MORE = ("required", "requires", "must specify", "You must", "USAGE:", "Unexpected args: [X]")
"""How kubectl refuses a command with too few arguments, which is how prose may name one."""


@pytest.fixture
def kubeconfig(installed: LoopbackControlPlane) -> dict[str, str]:
    return {**os.environ, "KUBECONFIG": str(installed.kubeconfig)}


def quoted(program: str) -> list[QuotedCommand]:
    """The commands of a program that are its own and not a plugin's; each text once."""
    found = {command.text: command for command in quoted_commands()}
    return [
        command
        for text, command in found.items()
        if text.startswith(f"{program} ") and not {"laneway", "krew"}.intersection(shlex.split(text)[1:2])
    ]


def arguments_of(command: QuotedCommand) -> list[str]:
    """The command's arguments, such that it neither writes nor waits."""
    words = shlex.split(command.text.partition(" > ")[0])[1:]
    if _WRITES & set(words) and words[:2] != ["create", "token"]:
        words.append("--dry-run=server")
    if "rollout" in words:
        words.append("--watch=false")
    return [word for word in words if word != "--watch"]


def helm(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs helm where it finds no cluster."""
    environment = {**os.environ, "KUBECONFIG": os.devnull}
    return subprocess.run(
        [str(built("helm")), *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("command", quoted("kubectl"), ids=str)
def test_kubectl_understands(
    command: QuotedCommand, installed: LoopbackControlPlane, kubeconfig: dict[str, str]
) -> None:
    done = subprocess.run(
        [str(installed.kubectl), *arguments_of(command)],
        cwd=ROOT,
        env=kubeconfig,
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        done.returncode == 0
        or any(text in done.stderr for text in _UNKNOWN_OBJECT)
        or (not command.complete and any(text in done.stderr for text in _NEEDS_MORE))
    ), done.stderr


@pytest.mark.parametrize("command", quoted("helm"), ids=str)
def test_helm_understands(command: QuotedCommand) -> None:
    """What renders the chart is run as it is written, without a cluster. An installation would need one, and is rendered for the tests'
    Kubernetes. For other commands helm prints help, which it does only with known options.
    """
    verb, *options = shlex.split(command.text)[1:]
    if verb == "template" and command.complete:
        words = [verb, *options]
    elif verb == "install" and "charts/laneway" in options:
        options = [option for option in options if option not in ("--wait", "--create-namespace")]
        words = ["template", *options, "--kube-version", kubernetes_version()]
    else:
        words = [verb, *options, "--help"]
    done = helm(words)
    assert done.returncode == 0, done.stderr


def test_the_command_for_a_prometheus_without_its_operator_prints_the_rules_and_nothing_else() -> None:
    (command,) = (
        each for each in quoted("helm") if each.place == "docs/monitoring.md" and " template " in each.text
    )
    (found,) = yaml.safe_load_all(helm(shlex.split(command.text)[1:]).stdout)
    assert found["kind"] == "PrometheusRule"
    assert found["spec"] == rules()


def test_labels_in_commands_are_labels_of_pods() -> None:
    """A selector in an f-string is a placeholder here, so the command line's own is named."""
    pods = [
        found["spec"]["template"]["metadata"]["labels"]
        for values in sorted((CHART / "ci").glob("*.yaml"))
        for found in rendered_objects(values)
        if "template" in found.get("spec", {})
    ]
    quoted_selectors = [
        words[words.index("-l") + 1]
        for command in quoted("kubectl")
        if "-l" in (words := shlex.split(command.text)) and command.complete
    ]
    for selector in (OPERATOR_SELECTOR, *quoted_selectors):
        wanted = dict(label.split("=") for label in selector.split(","))
        assert any(wanted.items() <= labels.items() for labels in pods), selector


def test_kubectl_refuses_flags_before_a_plugin(tmp_path: Path, kubeconfig: dict[str, str]) -> None:
    """Why an alert must not quote `kubectl -n NAMESPACE laneway …`."""
    plugin = tmp_path / "kubectl-laneway"
    plugin.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    plugin.chmod(0o755)
    environment = {**kubeconfig, "PATH": f"{tmp_path}:{kubeconfig['PATH']}"}
    kubectl = str(built("kubectl"))
    wrong = subprocess.run(
        [kubectl, "-n", "team", "laneway", "get"], env=environment, capture_output=True, check=False
    )
    right = subprocess.run(
        [kubectl, "laneway", "get", "-n", "team"], env=environment, capture_output=True, check=False
    )
    assert wrong.returncode != 0
    assert right.returncode == 0
