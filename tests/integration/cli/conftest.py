"""A user's shell, and a real API server to talk to."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from laneway.cli.main import main

from hack.cluster.control_plane import LoopbackControlPlane
from tests.support.rights import until_allowed

JOB = {
    "apiVersion": "laneway.dev/v1alpha1",
    "kind": "TrainingJob",
    "metadata": {"name": "digits"},
    "spec": {
        "gpus": {"type": "Share", "sharePercent": 50},
        "template": {"spec": {"containers": [{"name": "trainer", "image": "training:1"}]}},
    },
}


class Shell:
    """A user's shell: a kubeconfig, a namespace of its own, and what the last command wrote."""

    def __init__(self, plane: LoopbackControlPlane, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._plane = plane
        self._folder = folder
        self._capsys = capsys
        self.namespace = f"cli-{uuid.uuid4().hex[:8]}"
        self.out = ""
        self.err = ""
        self.kubectl("create", "namespace", self.namespace)

    def run(self, *arguments: str, user: str | None = None) -> int:
        """Run a verb as a user with few rights, or as the administrator (None); return its exit code."""
        kubeconfig = self._plane.kubeconfig_for(user) if user else self._plane.kubeconfig
        self._capsys.readouterr()
        code = main(["-n", self.namespace, "--kubeconfig", str(kubeconfig), *arguments])
        self.out, self.err = self._capsys.readouterr()
        return code

    def submit(self, job: dict[str, Any], *arguments: str) -> int:
        path = self._folder / "job.yaml"
        path.write_text(yaml.safe_dump(job), encoding="utf-8")
        return self.run("submit", "-f", str(path), *arguments)

    def kubectl(self, *arguments: str, standard_input: str | None = None) -> None:
        command = [str(self._plane.kubectl), "--kubeconfig", str(self._plane.kubeconfig), *arguments]
        subprocess.run(command, check=True, input=standard_input, text=True, stdout=subprocess.DEVNULL)

    def allow(self, user: str, resource: str, *verbs: str) -> None:
        """Give a user rights to a resource in the namespace, and no others, and wait until it has them."""
        place, asked = ("-n", self.namespace), [f"--verb={verb}" for verb in verbs]
        self.kubectl("create", "role", user, *place, *asked, f"--resource={resource}.laneway.dev")
        self.kubectl("create", "rolebinding", user, *place, f"--role={user}", f"--user={user}")
        until_allowed(self._plane, user, f"{verbs[0]} {resource}.laneway.dev", self.namespace)

    def ask(self, *arguments: str) -> str:
        """Run kubectl; return what it wrote."""
        command = [str(self._plane.kubectl), "--kubeconfig", str(self._plane.kubeconfig), *arguments]
        return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout

    def set_status(self, name: str, **status: Any) -> None:
        """Write a status, as the operator does."""
        self.kubectl(
            "patch", "trainingjob", name, "-n", self.namespace, "--subresource=status", "--type=merge",
            "-p", json.dumps({"status": status}),
        )  # fmt: skip


@pytest.fixture
def shell(
    control_plane: LoopbackControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[Shell]:
    made = Shell(control_plane, tmp_path, capsys)
    yield made
    made.kubectl("delete", "namespace", made.namespace, "--wait=false")
