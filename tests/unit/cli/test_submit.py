"""Jobs of a command, as ``submit --dry-run client`` prints them, and wrong command lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from laneway.api.training_job import TrainingJobSpec
from laneway.cli import exit_codes
from laneway.cli.main import main


def manifest(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The TrainingJob that a command line would create."""
    assert main(["submit", "--dry-run", "client", *words]) == exit_codes.OK, capsys.readouterr().err
    job: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    TrainingJobSpec.model_validate(job["spec"])
    return job


def test_a_script_of_this_machine_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "if True:\n    print('a')  # $HOME \"\n"
    Path("My_Train.py").write_text(text, encoding="utf-8")
    job = manifest(capsys, "--gpus", "0.5", "--", "python", "My_Train.py", "--", "-n", "3")
    pod = job["spec"]["template"]["spec"]
    launcher, path, *rest = pod["containers"][0]["command"]
    assert (launcher, rest) == ("python", ["--", "-n", "3"])
    assert path.endswith("/My_Train.py")
    assert list(job["spec"]["template"]["metadata"]["annotations"].values()) == [text]
    assert job["spec"]["gpus"] == {"type": "Share", "sharePercent": 50}
    assert job["metadata"]["name"].startswith("my-train-")


def test_a_package_beside_a_script_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own_models").mkdir()
    (tmp_path / "own_models" / "__init__.py").touch()
    (tmp_path / "train.py").write_text("import own_models", encoding="utf-8")
    assert (
        main(["submit", "--dry-run", "client", "--", "python", str(tmp_path / "train.py")]) == exit_codes.OK
    )
    says = f"laneway: train.py imports own_models ({tmp_path / 'own_models'}), which is not sent with it"
    assert capsys.readouterr().err.startswith(says)


def test_the_launcher_is_the_users(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "1.py").touch()
    words = ["--gpus", "2", "--", "torchrun", "--max-restarts=0", str(tmp_path / "1.py")]
    job = manifest(capsys, *words)
    command = job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[:2] == ["torchrun", "--max-restarts=0"]
    assert job["metadata"]["name"].startswith("job-1-")


def test_a_command_of_the_image(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LANEWAY_IMAGE", "site/training:2")
    words = [
        "--name",
        "a",
        "--workers",
        "2",
        "--env",
        "A=1=2",
        "--label",
        "team=x",
        "--priority-class",
        "high",
    ]
    job = manifest(capsys, *words, "--cpu", "4", "--memory", "8Gi", "--gpus", "8Gi", "--", "/train", "-x")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["command"]) == ("site/training:2", ["/train", "-x"])
    assert container["env"] == [{"name": "A", "value": "1=2"}]
    assert container["resources"]["limits"] == {"cpu": "4", "memory": "8Gi"}
    assert job["metadata"] == {"name": "a", "labels": {"team": "x"}}
    assert (job["spec"]["workers"], job["spec"]["priorityClassName"]) == (2, "high")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "needs -f FILE, or a command after --"),
        (["-f", "x.yaml", "--", "a"], "needs -f FILE, or a command after --"),
        (["-f", "x.yaml", "--gpus", "1"], "--gpus belongs to a command: write it into x.yaml"),
        (["--gpus", "1.5", "--", "a"], "gpu is 1.5: write a share in hundredths such as 0.5"),
        (["--env", "A", "--", "a"], "--env A: write NAME=VALUE"),
        (["--pip", "a", "--", "a"], "--pip needs a Python file of this machine"),
        (["--workers", "0", "--", "a"], "--workers 0: write a whole number from 1"),
        (["-f", "x.yaml", "--workers", "0"], "--workers belongs to a command: write it into x.yaml"),
        (["-f", "x.yaml", "--name", ""], "--name belongs to a command: write it into x.yaml"),
        (["--gpus", "", "--", "a"], "--gpus is empty: give it a value, or leave it out"),
        (["--image", "", "--", "a"], "--image is empty: give it a value, or leave it out"),
    ],
)
def test_wrong_command_lines(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["submit", *words]) == exit_codes.USAGE
    assert says in capsys.readouterr().err


def test_a_file_is_read_as_kubectl_reads_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(
        "apiVersion: laneway.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: a, annotations: {since: 2026-01-31}}\n"
        "spec: {gpus: {type: Count, count: 1}, template: {spec: {containers: [{name: t, args: [12:30:00, 1:30.5]}]}}}\n",
        encoding="utf-8",
    )
    assert main(["submit", "--dry-run", "client", "-f", str(path), "-o", "json"]) == exit_codes.OK
    job = json.loads(capsys.readouterr().out)
    assert job["metadata"]["annotations"] == {"since": "2026-01-31"}
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["12:30:00", "1:30.5"]


def a_file(tmp_path: Path, *jobs: dict[str, Any]) -> str:
    """The path of a file of TrainingJobs with these metadata."""
    path = tmp_path / "jobs.yaml"
    documents = [
        {"apiVersion": "laneway.dev/v1alpha1", "kind": "TrainingJob", "metadata": metadata}
        for metadata in jobs
    ]
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return str(path)


def test_the_namespace_is_printed_so_that_kubectl_creates_the_job_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert manifest(capsys, "-n", "team", "--name", "a", "--", "b")["metadata"]["namespace"] == "team"
    assert "namespace" not in manifest(capsys, "--name", "a", "--", "b")["metadata"]
    path = a_file(tmp_path, {"name": "a"}, {"name": "b", "namespace": "team"})
    assert main(["submit", "--dry-run", "client", "-n", "team", "-f", path]) == exit_codes.OK
    jobs = yaml.safe_load_all(capsys.readouterr().out)
    assert [job["metadata"]["namespace"] for job in jobs] == ["team", "team"]


@pytest.mark.parametrize("dry_run", [["--dry-run", "client"], []])
def test_a_namespace_that_contradicts_a_file_is_refused_before_a_job_is_created(
    dry_run: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = a_file(tmp_path, {"name": "a"}, {"generateName": "b-", "namespace": "x"})
    kubeconfig = ["--kubeconfig", str(tmp_path / "none")]
    assert main(["submit", *dry_run, *kubeconfig, "-n", "team", "-f", path]) == exit_codes.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert "TrainingJob b-* is in namespace x, but -n is team: remove one of them" in err


def test_a_name_that_the_api_server_generates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = a_file(tmp_path, {"generateName": "a-"})
    assert main(["submit", "--dry-run", "client", "-f", path, "-o", "name"]) == exit_codes.OK
    assert capsys.readouterr().out == "trainingjob.laneway.dev/a-*\n"
