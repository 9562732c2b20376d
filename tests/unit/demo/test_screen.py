"""What the demo writes while its jobs run."""

from __future__ import annotations

from io import StringIO

import pytest

from hack.demo.jobs import job_view
from hack.demo.screen import Screen
from tests.support.training_jobs import a_job, a_reason


def test_a_log_has_whole_messages() -> None:
    message = f"Waiting for {', '.join(f'lane-{each}' for each in range(30))} to release their GPUs."
    job, stream = a_job(waiting=a_reason(message=message)), StringIO()
    job["metadata"]["uid"] = "uid-digits"
    Screen(stream).show({"digits": job_view(job)})
    assert stream.getvalue().endswith(f"digits: GPUsBusy {message}\n")


class Terminal(StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_of_80_columns_shows_whole_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    message = "Waiting for lane-a, lane-b and 2 jobs of other namespaces to release their GPUs: preempted for this job."
    job, stream = a_job(waiting=a_reason(message=message)), Terminal()
    job["metadata"]["uid"] = "uid-digits"
    Screen(stream).show({"digits": job_view(job)})
    header, row, *note = stream.getvalue().splitlines()
    assert header.startswith("JOB")
    assert row.startswith("digits")
    assert " ".join(line.strip() for line in note) == message
    assert max(map(len, [header, row, *note])) < 80


def test_a_table_that_is_longer_than_the_terminal_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines that scroll away cannot be erased before the next table."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "4")
    job, stream = a_job(), Terminal()
    job["metadata"]["uid"] = "uid-digits"
    Screen(stream).show({f"digits-{each}": job_view(job) for each in range(9)})
    assert len(stream.getvalue().splitlines()) == 3
