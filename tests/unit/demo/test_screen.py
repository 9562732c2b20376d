"""What the demo writes while its jobs run."""

from __future__ import annotations

from io import StringIO

from hack.demo.jobs import job_view
from hack.demo.screen import Screen
from tests.support.training_jobs import a_job, a_reason


def test_a_log_has_whole_messages() -> None:
    message = f"Waiting for {', '.join(f'lane-{each}' for each in range(30))} to release their GPUs."
    job, stream = a_job(waiting=a_reason(message=message)), StringIO()
    job["metadata"]["uid"] = "uid-digits"
    Screen(stream).show({"digits": job_view(job)})
    assert stream.getvalue().endswith(f"digits: GPUsBusy {message}\n")
