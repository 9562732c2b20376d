"""The examples of docs/sdk.md run as they are written. The test writes the status in place of the operator."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

from laneway.sdk import TrainingJobClient

from hack.cluster.control_plane import LoopbackControlPlane

PAGE = Path(__file__).parents[3] / "docs" / "sdk.md"


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def end_each_job(plane: LoopbackControlPlane, client: TrainingJobClient) -> None:
    """Say of the first job that it is complete."""
    (name,) = next([job.name for job in jobs] for jobs in client.watch_jobs() if jobs)
    condition = (
        '{"type": "Complete", "status": "True", "reason": "Completed", "message": "All is well.", '
        '"lastTransitionTime": "2026-01-31T12:00:00Z"}'
    )
    patch = f'{{"status": {{"state": "Complete", "conditions": [{condition}]}}}}'
    kubectl = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), "-n", client.namespace]
    subprocess.run(
        [*kubectl, "patch", "trainingjob", name, "--subresource=status", "--type=merge", "-p", patch],
        check=True,
    )


def test_the_examples_of_the_page(control_plane: LoopbackControlPlane, tmp_path: Path) -> None:
    environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)}
    kubectl = [str(control_plane.kubectl), "--kubeconfig", str(control_plane.kubeconfig)]
    subprocess.run([*kubectl, "create", "namespace", "team"], check=True)
    client = TrainingJobClient(namespace="team", kubeconfig=str(control_plane.kubeconfig))
    operator = threading.Thread(target=end_each_job, args=(control_plane, client))
    operator.start()
    first, second = examples()
    script = tmp_path / "example.py"
    script.write_text(first, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script], check=False, env=environment, capture_output=True, text=True
    )
    operator.join()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "Complete"
    (job,) = client.list_jobs()
    followed = f'{second}\nimport asyncio\nasyncio.run(finish("{job.name}"))\n'.replace(
        "AsyncTrainingJobClient()", 'AsyncTrainingJobClient(TrainingJobClient(namespace="team"))'
    )
    script.write_text("from laneway.sdk import TrainingJobClient\n" + followed, encoding="utf-8")
    subprocess.run([sys.executable, script], check=True, env=environment)
    subprocess.run([*kubectl, "delete", "namespace", "team", "--wait=false"], check=True)
