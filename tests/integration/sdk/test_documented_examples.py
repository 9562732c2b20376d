"""The examples of docs/sdk.md run as they are written. A thread writes the status in place of the operator."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from laneway.sdk import TrainingJobClient

from hack.cluster.control_plane import LoopbackControlPlane

ROOT = Path(__file__).parents[3]
CONDITION = {
    "type": "Complete", "status": "True", "reason": "Completed", "message": "All is well.",
    "lastTransitionTime": "2026-01-31T12:00:00Z",
}  # fmt: skip


class Operator:
    """Says of the first job in a namespace that it is complete."""

    def __init__(self, plane: LoopbackControlPlane, kubeconfig: Path, namespace: str) -> None:
        self._kubectl = [str(plane.kubectl), "--kubeconfig", str(kubeconfig)]
        self._run("create", "namespace", namespace)
        self._run("config", "set-context", "--current", "--namespace", namespace)
        self.client = TrainingJobClient(kubeconfig=str(kubeconfig))
        self._thread = threading.Thread(target=self._complete_one)
        self._thread.start()

    def _run(self, *arguments: str) -> None:
        subprocess.run([*self._kubectl, *arguments], check=True, stdout=subprocess.DEVNULL)

    def _complete_one(self) -> None:
        name = next(jobs[0].name for jobs in self.client.watch_jobs() if jobs)
        patch = json.dumps({"status": {"state": "Complete", "conditions": [CONDITION]}})
        self._run("patch", "trainingjob", name, "--subresource=status", "--type=merge", "-p", patch)

    def end(self) -> None:
        self._thread.join()
        self._run("delete", "namespace", self.client.namespace, "--wait=false")


@pytest.fixture
def kubeconfig(control_plane: LoopbackControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "kubeconfig"
    shutil.copy(control_plane.kubeconfig, path)
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


@pytest.fixture
def operator(control_plane: LoopbackControlPlane, kubeconfig: Path) -> Iterator[Operator]:
    made = Operator(control_plane, kubeconfig, "team")
    yield made
    made.end()


def test_the_examples_of_the_page(operator: Operator, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "sdk.md").read_text(encoding="utf-8")
    first, second = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(first, encoding="utf-8")
    done = subprocess.run([sys.executable, script], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "Complete"
    (job,) = operator.client.list_jobs()
    script.write_text(f'{second}\nimport asyncio\nasyncio.run(finish("{job.name}"))\n', encoding="utf-8")
    subprocess.run([sys.executable, script], check=True, env=os.environ)
