"""What ``suspend`` says of the job that it stops."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from laneway.cli import exit_codes
from laneway.cli.main import main

from tests.support.fake_api_server import Answer, FakeAPIServer, a_kubeconfig
from tests.support.training_jobs import CREATED, PLACED, a_condition, a_job

RUNNING: dict[str, Any] = {"placement": PLACED, "conditions": [a_condition("Running")]}


@pytest.mark.parametrize(
    ("job", "warning", "effect"),
    [
        (
            a_job(progress={"unsavedSince": CREATED}, **RUNNING),
            "no checkpoint of it was seen",
            "grace period",
        ),
        (a_job(**RUNNING), "", "grace period"),
        (a_job(), "", "it does not start until it is resumed"),
    ],
    ids=["it saved none", "nothing is known", "it has no workers"],
)
def test_it_warns_of_a_job_that_saved_nothing(
    job: dict[str, Any], warning: str, effect: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def answer(_: str) -> Answer:
        return 200, json.dumps(job).encode()

    with FakeAPIServer(answer) as server:
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(yaml.safe_dump(a_kubeconfig(server.address)), encoding="utf-8")
        code = main(["--kubeconfig", str(kubeconfig), "suspend", "digits"])
    out, err = capfd.readouterr()
    assert code == exit_codes.OK
    assert out.startswith("TrainingJob digits suspended; ")
    assert effect in out
    assert (warning in err) if warning else err == ""
