"""`make test-gpu` where there is no GPU: it says so; and its own code, with a simulated GPU in the place of a real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.isolation.allocators import ALLOCATORS
from tests.support.torch_runtime import REPOSITORY

_MOST_SECONDS = 870
pytestmark = pytest.mark.timeout(_MOST_SECONDS + 30)  # most of them take a minute on an idle machine


def run(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "tests/gpu", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_MOST_SECONDS,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_without_a_gpu_it_says_what_is_missing_and_what_to_do(tmp_path: Path) -> None:
    said = run(PATH=str(tmp_path))
    assert said.startswith("make test-gpu: skipped, nothing was tested: ")
    assert "run it on a machine with an NVIDIA GPU" in said


def test_an_interpreter_without_pytorch_is_told_apart(tmp_path: Path) -> None:
    """There is a driver; the message names what is missing, and the interpreter."""
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho Default\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    said = run("--only", "tests", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert "skipped, nothing was tested" in said
    assert f"{sys.executable} has no torch" in said or "PyTorch sees no GPU" in said


DRIVER_TESTS = "test_interposer or test_launch_gate"
"""Those of programs that call the driver themselves: here a fake one."""


@pytest.mark.parametrize(
    ("which", "outcome"),
    [
        (f"not ({DRIVER_TESTS})", "7 passed, 3 skipped"),
        pytest.param(DRIVER_TESTS, "22 passed, 4 skipped", marks=pytest.mark.long),
    ],
)
def test_its_tests_run_on_a_simulated_gpu(which: str, outcome: str) -> None:
    assert outcome in run("--device", "cpu", "--only", "tests", "--", "-k", which)


@pytest.mark.long
def test_its_measurements_of_shares_run_on_a_simulated_gpu(tmp_path: Path) -> None:
    run("--device", "cpu", "--only", "shares", "--results", str(tmp_path), "--", "--no-page")
    account, gate, shares = (
        json.loads((tmp_path / f"gpu-{name}.json").read_text())["result"]
        for name in ("memory-account", "launch-gate", "shares")
    )
    assert {row["error_bytes"] for row in account["allocators"]} == {0}
    assert len(account["allocators"]) == len(ALLOCATORS)
    assert gate["turns_of_the_bursts"] == 1
    assert gate["kernels_at_once"]["with"]["kernels"] > 0
    assert gate["kernels_at_once"]["with"]["pairs"] == 0 < gate["kernels_at_once"]["without"]["pairs"]
    (case,) = shares["cases"]
    assert [way["way"] for way in case["ways"]] == ["time-slicing", "one lane", "lanes"]
    assert all(min(way["progress_percent"]) > 0 for way in case["ways"])
    assert case["hand_off"]["p50_us"] > 0


@pytest.mark.long
def test_its_benchmark_runs_on_a_simulated_gpu(tmp_path: Path) -> None:
    said = run("--device", "cpu", "--only", "sharing", "--results", str(tmp_path), "--", "--no-page")
    assert "one after the other" in said
    (network,) = json.loads((tmp_path / "gpu-sharing.json").read_text())["result"]["networks"]
    assert network["left_out"] == {"MPS": "there is no real GPU"}
    assert [crowd["jobs"] for crowd in network["crowds"]] == [1, 2]
    for crowd in network["crowds"]:
        assert [way["way"] for way in crowd["ways"]] == [
            "one after the other",
            "time-slicing",
            "lanes",
            "one lane",
        ]
        assert all(way["samples_per_second"] > 0 for way in crowd["ways"])
