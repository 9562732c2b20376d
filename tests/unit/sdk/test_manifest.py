"""TrainingJobs that are built from trainers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.api.training_job import TrainingJobSpec
from laneway.sdk import (
    CustomTrainer,
    CustomTrainerContainer,
    CustomTrainerScript,
    WrongArgumentError,
    job_manifest,
)
from laneway.sdk.manifest import gpu_request
from laneway.sdk.script import ANNOTATION


@pytest.mark.parametrize(
    ("amount", "want"),
    [
        (0.5, {"type": "Share", "sharePercent": 50}),
        ("0.07", {"type": "Share", "sharePercent": 7}),
        (1, {"type": "Count", "count": 1}),
        (2.0, {"type": "Count", "count": 2}),
        ("8Gi", {"type": "Memory", "memory": "8Gi"}),
    ],
)
def test_amounts_of_gpus(amount: str | float, want: dict[str, Any]) -> None:
    assert gpu_request(amount) == want


@pytest.mark.parametrize("amount", [0, -1, 0.005, 1.5, "inf", "nan"])
def test_wrong_amounts_of_gpus(amount: str | float) -> None:
    with pytest.raises(WrongArgumentError, match=r"write a share in hundredths such as 0\.5"):
        gpu_request(amount)


@given(st.integers(1, 99))
def test_each_hundredth_is_a_share(percent: int) -> None:
    assert gpu_request(percent / 100) == {"type": "Share", "sharePercent": percent}


def test_a_command_of_an_image() -> None:
    trainer = CustomTrainerContainer(
        image="digits:1",
        command=["python3", "train.py"],
        num_nodes=2,
        resources_per_node={"gpu": 0.5, "cpu": 4, "memory": "8Gi"},
        env={"SEED": "1"},
    )
    job = job_manifest(trainer, name="digits", labels={"team": "a"}, spec={"priorityClassName": "high"})
    amounts = {"cpu": "4", "memory": "8Gi"}
    assert job == {
        "apiVersion": "laneway.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "digits", "labels": {"team": "a"}},
        "spec": {
            "workers": 2,
            "gpus": {"type": "Share", "sharePercent": 50},
            "priorityClassName": "high",
            "template": {
                "metadata": {"labels": {"team": "a"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "trainer",
                            "image": "digits:1",
                            "command": ["python3", "train.py"],
                            "env": [{"name": "SEED", "value": "1"}],
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                            "resources": {"requests": amounts, "limits": amounts},
                        }
                    ],
                },
            },
        },
    }
    TrainingJobSpec.model_validate(job["spec"])


def test_a_script_is_a_file_of_the_workers(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('$HOME \"quoted\"')\n", encoding="utf-8")
    template = job_manifest(CustomTrainerScript(script=script, args=["--epochs", "3"]))["spec"]["template"]
    (container,) = template["spec"]["containers"]
    *start, path, option, value = container["command"]
    assert (start, option, value) == (["python3", "-u"], "--epochs", "3")
    assert template["metadata"]["annotations"][f"{ANNOTATION}train.py"] == "print('$HOME \"quoted\"')\n"
    (volume,), (mount,) = template["spec"]["volumes"], container["volumeMounts"]
    assert volume["name"] == mount["name"]
    assert f"{mount['mountPath']}/{volume['downwardAPI']['items'][0]['path']}" == path


def test_another_script_is_another_template(tmp_path: Path) -> None:
    """The operator keeps a profile for each command line."""
    script, commands = tmp_path / "train.py", []
    for text in ("a = 1\n", "a = 2\n"):
        script.write_text(text, encoding="utf-8")
        job = job_manifest(CustomTrainerScript(script=script))
        commands.append(job["spec"]["template"]["spec"]["containers"][0]["command"])
    assert commands[0] != commands[1]


def test_workers_with_several_gpus_start_a_process_for_each(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.touch()
    job = job_manifest(CustomTrainerScript(script=script, resources_per_node={"gpu": 4}))
    assert job["spec"]["template"]["spec"]["containers"][0]["command"][0] == "torchrun"


def test_packages_are_installed_first() -> None:
    def train() -> None:
        pass

    trainer = CustomTrainer(
        func=train, packages_to_install=["a>1", "b"], pip_index_urls=["https://one", "https://two"]
    )
    command = job_manifest(trainer)["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command[:2] == ["sh", "-ec"]
    install, run = command[2].splitlines()
    assert install == (
        "python3 -m pip install --quiet --index-url=https://one --extra-index-url=https://two 'a>1' b"
    )
    assert run == 'exec "$0" "$@"'
    assert command[3:5] == ["python3", "-u"]


def test_a_template_is_completed_and_not_changed() -> None:
    template = {
        "spec": {
            "nodeSelector": {"a": "b"},
            "containers": [
                {"name": "sidecar", "image": "s"},
                {"name": "trainer", "workingDir": "/data", "env": [{"name": "A", "value": "1"}]},
            ],
        }
    }
    spec = {"template": template, "workers": 3}
    job = job_manifest(CustomTrainerContainer(image="i", env={"B": "2"}), spec=spec)
    pod = job["spec"]["template"]["spec"]
    assert (pod["nodeSelector"], job["spec"]["workers"]) == ({"a": "b"}, 3)
    assert [each["name"] for each in pod["containers"]] == ["trainer", "sidecar"]
    assert pod["containers"][0]["workingDir"] == "/data"
    assert [each["name"] for each in pod["containers"][0]["env"]] == ["A", "B"]
    assert "image" not in template["spec"]["containers"][1]  # type: ignore[index]


def test_names_are_those_of_a_job() -> None:
    names = {job_manifest(CustomTrainerContainer())["metadata"]["name"] for _ in range(100)}
    assert len(names) == 100
    assert all(name.isalnum() and name[0].isalpha() and len(name) == 12 for name in names)


def test_unknown_resources_are_named() -> None:
    with pytest.raises(WrongArgumentError, match=r"resources_per_node has tpu: write gpu, cpu and memory"):
        job_manifest(CustomTrainerContainer(resources_per_node={"tpu": 1}))
