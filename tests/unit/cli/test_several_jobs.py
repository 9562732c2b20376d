"""Verbs on several TrainingJobs: one that fails does not keep the others from being changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from laneway.cli import exit_codes
from laneway.cli.main import main
from laneway.sdk import TrainingJobClient

from tests.support.fake_api_server import Answer, FakeAPIServer, a_kubeconfig
from tests.support.training_jobs import a_job

Run = Callable[..., int]
REFUSALS = {
    "nox": (404, 'trainingjobs.laneway.dev "nox" not found'),
    "theirs": (403, 'trainingjobs.laneway.dev "theirs" is forbidden'),
    "expired": (401, "Unauthorized"),
    "busy": (503, "the server is starting"),
}


def answer(path: str) -> Answer:
    name = path.partition("?")[0].rpartition("/")[2]
    if name in REFUSALS:
        status, message = REFUSALS[name]
        return status, json.dumps({"kind": "Status", "message": message}).encode()
    if "/pods" in path or name == "pods":
        return 200, json.dumps({"kind": "PodList", "items": []}).encode()
    job = a_job(name)
    job["spec"]["suspend"] = True
    return 200, json.dumps(job).encode()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs a command; its jobs answer by their names."""
    with FakeAPIServer(answer) as server:
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(json.dumps(a_kubeconfig(server.address)), encoding="utf-8")
        yield lambda *words: main(["--kubeconfig", str(kubeconfig), *words])


@pytest.mark.parametrize(
    ("verb", "done"), [("delete", "deleted"), ("suspend", "suspended"), ("resume", "resumed")]
)
def test_the_others_are_changed_and_each_failure_is_said_at_the_end(
    verb: str, done: str, run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(verb, "a", "nox", "b", "theirs", "../c", "d") == exit_codes.NOT_FOUND, "as the first failure"
    out, err = capfd.readouterr()
    changed = [line.partition(";")[0].removesuffix(".") for line in out.splitlines()]
    assert changed == [f"TrainingJob {name} {done}" for name in "abd"]
    missing, forbidden, no_name = err.splitlines()
    assert missing == "laneway: TrainingJob nox in namespace default not found"
    assert forbidden.startswith("laneway: not allowed: ")
    assert "'../c' is no name of an object" in no_name


@pytest.mark.parametrize("verb", ["pause", "unpause", "offload", "restore"])
def test_orders_to_workers(verb: str, run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(verb, "a", "nox", "b") == exit_codes.FAILED
    assert capfd.readouterr().err.splitlines() == [
        f"laneway: TrainingJob a has no running workers to {verb}",
        "laneway: TrainingJob nox in namespace default not found",
        f"laneway: TrainingJob b has no running workers to {verb}",
    ]


@pytest.mark.parametrize(("name", "code"), [("expired", exit_codes.FAILED), ("busy", exit_codes.UNREACHABLE)])
def test_what_no_other_job_can_escape_ends_the_command(
    name: str, code: int, run: Run, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run("delete", "nox", name, "b") == exit_codes.NOT_FOUND
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 2
    assert run("delete", name, "b") == code
    assert len(capfd.readouterr().err.splitlines()) == 1


def test_missing_ones_may_be_ignored(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("delete", "--ignore-not-found", "nox", "b") == exit_codes.OK
    assert capfd.readouterr() == ("TrainingJob b deleted.\n", "")


def test_failures_are_said_where_the_user_interrupts_the_command(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(client: TrainingJobClient, name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingJobClient, "watch_job", interrupted)
    assert run("delete", "--wait", "nox", "a", "b") == exit_codes.INTERRUPTED
    assert capfd.readouterr().err == "laneway: TrainingJob nox in namespace default not found\n"
