"""Functions, scripts and the notebook on real kubelets, and the verbs that need a worker's container."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from laneway.cli.main import main as laneway_command
from laneway.sdk import CustomTrainer, TrainingJobClient
from laneway.sdk.logs import worker_logs
from nbclient import NotebookClient

from hack.cluster.probes import wait_until
from tests.e2e.conftest import Bench
from tests.e2e.manifests import IMAGE

ROOT = Path(__file__).parents[2]
SHARE = {"gpu": 0.3}


@pytest.fixture
def client(bench: Bench) -> TrainingJobClient:
    kubeconfig = str(bench.laneway.installation.target.kubeconfig)
    return TrainingJobClient(namespace=bench.namespace, kubeconfig=kubeconfig)


def shell(bench: Bench, *words: str) -> subprocess.CompletedProcess[str]:
    """What a user's shell shows, with kubectl on the PATH."""
    kubectl = bench.laneway.kubectl
    path = os.pathsep.join((str(kubectl.program.parent), os.environ["PATH"]))
    cluster = ("-n", bench.namespace, "--kubeconfig", str(kubectl.kubeconfig))
    command = [sys.executable, "-m", "laneway.cli.main", *cluster, *words]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, "PATH": path}, timeout=300
    )


def greet(word: str) -> None:
    import os

    print(word, "$HOME 'quoted'", os.environ["RANK"])


def count_seconds() -> None:
    import time

    for second in range(600):
        print(second, flush=True)
        time.sleep(1)


def test_a_function_runs_in_all_workers(bench: Bench, client: TrainingJobClient) -> None:
    trainer = CustomTrainer(
        func=greet, func_args={"word": "hello"}, image=IMAGE, num_nodes=2, resources_per_node=SHARE
    )
    name = client.train(trainer)
    lines = list(client.get_job_logs(name, worker=None, follow=True))
    want = {f"[{name}-{rank}] hello $HOME 'quoted' {rank}" for rank in range(2)}
    assert want <= set(lines)
    assert client.wait_for_job_status(name).status == "Complete"
    assert {event.involved_object_kind for event in client.get_job_events(name)} == {"TrainingJob", "Pod"}
    shown = shell(bench, "logs", name, "--all-workers")
    assert want <= set(shown.stdout.splitlines()), shown.stderr
    assert shell(bench, "logs", name, "-f").stdout.count("hello") == 1


def test_a_script_with_a_module_beside_it_is_submitted(
    bench: Bench, client: TrainingJobClient, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text("import sys\nfrom beside import word\nprint(word, sys.argv[1:])\n")
    (tmp_path / "beside.py").write_text("word = 'beside'\n")
    words = ("--name", "sent", "--image", IMAGE, "--gpus", "0.3", "--", "python3", str(tmp_path / "train.py"))
    submitted = shell(bench, "submit", *words, "--steps", "3")
    assert submitted.returncode == 0, submitted.stderr
    assert list(client.get_job_logs("sent", follow=True))[-1] == "beside ['--steps', '3']"
    assert client.wait_for_job_status("sent").finished


def test_a_worker_is_entered_suspended_and_resumed(bench: Bench, client: TrainingJobClient) -> None:
    name = client.train(CustomTrainer(func=count_seconds, image=IMAGE, resources_per_node=SHARE))
    client.wait_for_job_status(name, {"Running"})
    entered = shell(bench, "exec", name, "--", "sh", "-c", "echo in $0", "the worker")
    assert entered.stdout == "in the worker\n", entered.stderr
    wait_until(lambda: f"{name}-0" in shell(bench, "top").stdout, "its node has published its session", 180)
    client.suspend_job(name)
    client.wait_for_job_status(name, {"Suspended"})
    assert shell(bench, "resume", name).returncode == 0
    client.wait_for_job_status(name, {"Running"})
    (log,) = worker_logs(
        client.cluster, client.namespace, name, worker=0, container=None, follow=True
    ).values()
    lines = log.lines()
    assert [next(lines) for _ in range(3)] == ["0", "1", "2"]
    assert log._stream is not None
    log._stream.close()  # a lost connection: the log is read on with the kubelet's timestamps and sinceTime
    assert [next(lines) for _ in range(3)] == ["3", "4", "5"]
    log.close()


def test_the_notebook_trains_and_deletes_its_job(
    bench: Bench, client: TrainingJobClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig = yaml.safe_load(bench.laneway.kubectl.kubeconfig.read_text(encoding="utf-8"))
    for each in kubeconfig["contexts"]:
        each["context"]["namespace"] = bench.namespace
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig), encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    notebook = nbformat.read(ROOT / "examples" / "train.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    (creates,) = (cell for cell in notebook.cells if "CustomTrainer(func=train," in cell.source)
    creates.source = creates.source.replace("CustomTrainer(", f"CustomTrainer(image={IMAGE!r}, ")
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    lines = "".join(output["text"] for output in outputs if output["name"] == "stdout").splitlines()
    epochs = [line for line in lines if re.fullmatch(r"epoch \d: loss \d+\.\d{4}", line)]
    assert [line.partition(":")[0] for line in epochs] == ["epoch 0", "epoch 1", "epoch 2"], lines
    assert lines[-1] == "Complete"
    assert client.list_jobs() == [], "its last cell deletes the job"


def test_the_doctor_finds_nothing_wrong(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    kubeconfig = str(bench.laneway.kubectl.kubeconfig)
    assert laneway_command(["doctor", "--kubeconfig", kubeconfig]) == 0, capsys.readouterr().out
    out = capsys.readouterr().out
    assert "FAILED" not in out
    assert "GPU 0 is simulated" in out
