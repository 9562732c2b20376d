"""What a test's job has started ends with it."""

from __future__ import annotations

from pathlib import Path

from tests.support.client.jobs import Job
from tests.support.torch_runtime import TorchRuntime

LEAVES_A_PROCESS = "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)"


def test_a_process_that_outlives_its_launcher_does_not_outlive_the_job(tmp_path: Path) -> None:
    job = Job(["-c", LEAVES_A_PROCESS], tmp_path, runtime=TorchRuntime(None))
    command = Path("/proc", job.line(), "cmdline")
    assert command.read_bytes()
    job.kill()
    assert not command.exists() or not command.read_bytes(), "it runs still"
