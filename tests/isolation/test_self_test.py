"""The agent's self-test of the shipped library: its program, run for real on the fake driver, and drivers on which it must fail."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from laneway.node_agent.self_test.evaluation import AccountUse, SelfTestResult, evaluate
from laneway.node_agent.self_test.private_account import PrivateAccount
from laneway.node_agent.self_test.program_runner import Found, ProgramRunner, Run

from tests.support.isolation.building import fake_driver_variables
from tests.support.isolation.fake_devices import MIB, FakeDevice, make_device

QUOTA, BEYOND = 128 * MIB, 132 * MIB
HANGS_SECONDS = 20
"""In this time the program comes to the call that hangs, on a busy machine too: it has the least share of the CPU."""
WAYS = ["cuMemAlloc", "cuGetProcAddress", "cuMemCreate", "cuMemAllocAsync", "cuGraphInstantiate"]


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    for name, value in fake_driver_variables(tmp_path).items():
        monkeypatch.setenv(name, value)
    return make_device(tmp_path, 0, 1024 * MIB)


def held(
    device: FakeDevice, directory: Path, library: Path, limit_seconds: int = 60
) -> tuple[Run, AccountUse]:
    """Run the program with a library."""
    with PrivateAccount(directory / "account.sock", device.uuid, QUOTA) as account:
        run = ProgramRunner(limit_seconds).run(device.name, device.uuid, BEYOND, library)
    return run, account.use


def has_all_memory(run: Run) -> None:
    """Check that nothing limited a run of the program."""
    assert run.found is not None
    assert run.found.total_bytes == 1024 * MIB
    assert run.found.beyond == dict.fromkeys(WAYS, 0)
    assert "cuMemAlloc for CUDA 13.0" in run.found.own


def test_each_way_is_refused_beyond_the_quota_with_the_library_and_nothing_stays_taken(
    device: FakeDevice, directory: Path, interposer: Path
) -> None:
    assert ProgramRunner(60).run(device.name, device.uuid, 0) == Run(Found(1024 * MIB, {}))
    run, use = held(device, directory, interposer)
    assert run == Run(Found(QUOTA, dict.fromkeys(WAYS, 2)))
    assert use.asked
    assert use.refusals >= len(WAYS)
    assert not (directory / "account.sock").exists()
    assert device.held() == {}
    ungated = ProgramRunner(60).run(device.name, device.uuid, BEYOND)
    has_all_memory(ungated)


@pytest.mark.parametrize(
    ("suffering", "outcome"),
    [
        ("crash", Run(problem="it was ended by SIGSEGV in cuMemAlloc_v2")),
        ("exit", Run(problem="it ended with status 0 in cuMemAlloc_v2")),
        ("signal", Run(problem="it was ended by signal 40 in cuMemAlloc_v2")),
        (
            "hang",
            Run(problem=f"it did not end within {HANGS_SECONDS} s, in cuMemAlloc_v2", perhaps_chance=True),
        ),
        (
            "deadlock",
            Run(problem=f"it did not end within {HANGS_SECONDS} s, in cuMemAlloc_v2", perhaps_chance=True),
        ),
    ],
)
def test_a_driver_that_fails_under_the_library_is_told_by_the_call(
    device: FakeDevice,
    directory: Path,
    interposer: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffering: str,
    outcome: Run,
) -> None:
    monkeypatch.setenv("FAKE_CUDA_UNDER_PRELOAD", suffering)
    assert ProgramRunner(60).run(device.name, device.uuid, 0).found is not None
    assert held(device, directory, interposer, HANGS_SECONDS if outcome.perhaps_chance else 60)[0] == outcome


def test_a_later_version_of_a_call_that_the_library_does_not_know_is_found_out(
    device: FakeDevice, directory: Path, interposer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libcudart asks a driver for the newest version of each call that it was built with."""
    monkeypatch.setenv("FAKE_CUDA_LATER_ALLOCATION", "1")
    plain = ProgramRunner(60).run(device.name, device.uuid, 0)
    run, use = held(device, directory, interposer)
    result = evaluate(plain, run, use, QUOTA)
    assert result == SelfTestResult(
        False,
        "cuGetProcAddress returns the driver's own cuMemAlloc for CUDA 13.0, which the library does not hold",
    )


def test_a_library_that_holds_nothing_is_found_out(
    device: FakeDevice, directory: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library.so"
    subprocess.run(["gcc", "-shared", "-o", str(library), "-xc", "/dev/null"], check=True)
    run, use = held(device, directory, library)
    has_all_memory(run)
    assert use == AccountUse(asked=False, refusals=0)


def test_a_node_without_the_drivers_library_or_with_a_full_gpu_is_no_result_for_the_library(
    device: FakeDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = make_device(tmp_path, 0, MIB)
    assert ProgramRunner(60).run(full.name, full.uuid, 0) == Run(
        problem="cuMemAlloc returned 2 for 4 MiB", perhaps_chance=True
    )
    assert "none of the driver's 1 GPUs has the uuid" in ProgramRunner(60).run("GPU-x", bytes(16), 0).problem
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert "libcuda.so.1" in ProgramRunner(60).run(device.name, device.uuid, 0).problem


def test_a_closed_runner_starts_nothing(device: FakeDevice) -> None:
    runner = ProgramRunner(60)
    runner.close()
    assert runner.run(device.name, device.uuid, 0) == Run(problem="the agent ends")
