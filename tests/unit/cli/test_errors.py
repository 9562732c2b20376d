"""Every verb without a cluster, with a wrong kubeconfig, without rights, without the custom resources: one sentence, no traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from laneway.cli import exit_codes
from laneway.cli.main import main

from tests.support.fake_api_server import Answer, FakeAPIServer, a_kubeconfig

TRAINING_JOB_VERBS = (
    "submit -f job.yaml", "submit -f job.yaml --dry-run=server", "submit -- python", "list", "list -w", "get a",
    "get a --watch", "logs a", "logs a -f", "logs a --all-workers", "events a", "wait a", "suspend a", "resume a",
    "delete a", "delete a --wait", "explain a", "queue", "queue -w", "pause a", "unpause a", "offload a", "restore a",
)  # fmt: skip
GPU_NODE_VERBS = ("nodes", "nodes -o wide", "top", "top -w")
VERBS = (*TRAINING_JOB_VERBS, "exec a", *GPU_NODE_VERBS)
ALL = (*VERBS, "doctor", "board --port 0")
NOWHERE = "http://127.0.0.1:9"

FORBIDDEN = 'trainingjobs.laneway.dev is forbidden: User "u" cannot list resource "trainingjobs"'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a job to submit; the PATH has a kubectl, which must not be reached."""
    job = {"apiVersion": "laneway.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "a"}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job), encoding="utf-8")
    kubectl = tmp_path / "kubectl"
    kubectl.write_text("#!/bin/sh\necho reached\n", encoding="utf-8")
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def sentence(
    verb: str, kubeconfig: Mapping[str, Any] | str, capfd: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """Run a verb; return its exit code, and the one line that it wrote."""
    text = kubeconfig if isinstance(kubeconfig, str) else yaml.safe_dump(kubeconfig)
    Path("config").write_text(text, encoding="utf-8")
    code = main(["--kubeconfig", "config", *verb.split()])
    out, err = capfd.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return code, err.removeprefix("laneway: ").rstrip("\n")


class Answers:
    """What the API server answers to all requests."""

    def __init__(self) -> None:
        self.status, self.message, self.address = 200, "", ""
        self.body: str | None = None
        """In place of a status with the message."""

    def to(self, path: str) -> Answer:
        if self.body is not None:
            return self.status, self.body.encode()
        if self.status == 404 and "/apis/laneway.dev/" in path:
            return 404, b"404 page not found\n"  # as for any group that it does not know
        return self.status, json.dumps({"kind": "Status", "message": self.message}).encode()


@pytest.fixture
def answers() -> Iterator[Answers]:
    made = Answers()
    with FakeAPIServer(made.to) as server:
        made.address = server.address
        yield made


@pytest.mark.parametrize("verb", ALL)
def test_no_cluster(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    want = f"cannot reach the cluster at {NOWHERE}: Connection refused"
    assert sentence(verb, a_kubeconfig(NOWHERE), capfd) == (exit_codes.UNREACHABLE, want)


@pytest.mark.parametrize("verb", ALL)
def test_an_expired_token(verb: str, answers: Answers, capfd: pytest.CaptureFixture[str]) -> None:
    answers.status, answers.message = 401, "Unauthorized"
    want = "the cluster refused your credentials, which are wrong or expired: renew them, or check the user in your kubeconfig"
    assert sentence(verb, a_kubeconfig(answers.address), capfd) == (exit_codes.FAILED, want)


@pytest.mark.parametrize("verb", VERBS)
def test_a_namespace_without_rights(verb: str, answers: Answers, capfd: pytest.CaptureFixture[str]) -> None:
    answers.status, answers.message = 403, FORBIDDEN
    code, said = sentence(verb, a_kubeconfig(answers.address), capfd)
    assert code == exit_codes.FAILED
    assert said.startswith(f"not allowed: {FORBIDDEN}")


@pytest.mark.parametrize("verb", [*TRAINING_JOB_VERBS, *GPU_NODE_VERBS])
def test_a_cluster_without_the_custom_resources(
    verb: str, answers: Answers, capfd: pytest.CaptureFixture[str]
) -> None:
    answers.status = 404
    code, said = sentence(verb, a_kubeconfig(answers.address), capfd)
    assert code == exit_codes.NOT_FOUND
    want = "the cluster has no TrainingJobs: install Laneway first, as docs/operate/README.md of its repository says"
    assert said == want


@pytest.mark.parametrize("verb", ALL)
@pytest.mark.parametrize("body", ["{}", "null", '[["kind", "List"]]', "<html>"])
def test_another_server_than_an_api_server(
    body: str, verb: str, answers: Answers, capfd: pytest.CaptureFixture[str]
) -> None:
    """A proxy at which the user is to sign in, for example."""
    answers.body = body
    want = f"cannot reach the cluster at {answers.address}: it answers, and is no API server"
    assert sentence(verb, a_kubeconfig(answers.address), capfd) == (exit_codes.UNREACHABLE, want)


NO_PROGRAM = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "command": "no-such",
    "interactiveMode": "Never",
}
WRONG = {
    "no YAML": ("{", "no cluster is configured: the kubeconfig config is not valid YAML: "),
    "text": ("hello", "no cluster is configured: the kubeconfig config is no kubeconfig"),
    "a list": ("[1, 2]", "no cluster is configured: the kubeconfig config is no kubeconfig"),
    "empty": ("", "no cluster is configured: the kubeconfig config is wrong: config file is empty"),
    "another context": (
        a_kubeconfig(NOWHERE) | {"current-context": "gone"},
        "no cluster is configured: the kubeconfig config has no context gone; its contexts: c",
    ),
    "no context": (
        a_kubeconfig(NOWHERE) | {"current-context": ""},
        "no cluster is configured: the kubeconfig config has no current context; its contexts: c",
    ),
    "no user": (a_kubeconfig(NOWHERE) | {"users": []}, "no cluster is configured: the kubeconfig config is wrong: "),
    "no cluster": (a_kubeconfig(NOWHERE) | {"clusters": []}, "no cluster is configured: the kubeconfig config is wrong: "),
    "no scheme": (
        a_kubeconfig("127.0.0.1:9"),
        "no cluster is configured: the kubeconfig config has the server 127.0.0.1:9: begin it with https://",
    ),
    "no program": (
        a_kubeconfig(NOWHERE, exec=NO_PROGRAM),
        "the kubeconfig config gives no credential: [Errno 2] No such file or directory: 'no-such'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("verb", ["list", "board --port 0"])
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_kubeconfig(case: str, verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    text, says = WRONG[case]
    code, said = sentence(verb, text, capfd)
    assert code == exit_codes.UNREACHABLE
    assert said.startswith(says)


@pytest.mark.parametrize("verb", ["list", "exec a", "board --port 0"])
def test_a_context_that_does_not_exist(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    want = "no cluster is configured: the kubeconfig config has no context gone; its contexts: c"
    assert sentence(f"--context gone {verb}", a_kubeconfig(NOWHERE), capfd) == (exit_codes.UNREACHABLE, want)


def test_a_context_needs_no_current_one(capfd: pytest.CaptureFixture[str]) -> None:
    code, said = sentence("list --context c", a_kubeconfig(NOWHERE) | {"current-context": ""}, capfd)
    assert (code, said) == (
        exit_codes.UNREACHABLE,
        f"cannot reach the cluster at {NOWHERE}: Connection refused",
    )
