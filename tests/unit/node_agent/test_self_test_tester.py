"""When the agent tests the interposer, repeats a test, and keeps what it knows, with scripted runs of the program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from laneway.api.names import INTERPOSER_NAME
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.gpus.protocol import GPUError, GPUInfo, GPUReading
from laneway.node_agent.host_folders import HostFolders
from laneway.node_agent.self_test import tester as tester_module
from laneway.node_agent.self_test.evaluation import AccountUse
from laneway.node_agent.self_test.program_runner import Found, ProgramRunner, Run
from laneway.node_agent.self_test.results_file import RESULTS_NAME
from laneway.node_agent.self_test.tester import QUOTA_BYTES, InterposerTester

GPUS = tuple(
    GPUInfo(f"GPU-{number}1111111-0000-0000-0000-000000000000", number, "Test", 80 << 30) for number in (1, 2)
)
PLAIN = Run(Found(80 << 30, {}))
HELD = Run(Found(QUOTA_BYTES, {"cuMemAlloc": 2}))
SLOW = Run(problem="it did not end within 60 s, in cuMemAlloc_v2", perhaps_chance=True)
KILLED = Run(problem="it was ended by SIGKILL in cuMemAlloc_v2", killed=True)
CRASHED = Run(problem="it was ended by SIGSEGV in cuMemAlloc_v2")
TIMES_OUT = GPUError("the driver's version: no answer within 5 s")


class Driver:
    """A driver that tells its version, unless it is in trouble."""

    def __init__(self) -> None:
        self.version = "570.86.15"
        self.trouble: GPUError | None = None

    def driver_version(self) -> str:
        if self.trouble is not None:
            raise self.trouble
        return self.version


class Account:
    """Stands for the account that the library asked and that refused."""

    use = AccountUse(asked=True, refusals=1)

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> Account:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Setup:
    """A tester, with the runs that its program will have."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folders = HostFolders(root)
        self.folders.agent_state.mkdir(parents=True)
        self.folders.client.mkdir(parents=True)
        self.interposer = self.folders.client / INTERPOSER_NAME
        self.interposer.write_text("library")
        self.driver = Driver()
        self.runs: list[Run] = []
        self.used: list[str] = []
        """The GPUs of the runs."""

        monkeypatch.setattr(tester_module, "PrivateAccount", Account)
        monkeypatch.setattr(ProgramRunner, "run", lambda _, uuid, *__: self.run(uuid))
        self.tester = self.new_tester()

    def new_tester(self) -> InterposerTester:
        source: Any = self.driver
        health = GPUHealth(reading=GPUReading(used_bytes=0))
        return InterposerTester(source, GPUS, lambda _: health, self.folders, 5)

    def run(self, uuid: str) -> Run:
        """Have the next run."""
        self.used.append(uuid)
        self.during_run()
        return self.runs.pop(0)

    def during_run(self) -> None:
        """What happens on the node meanwhile."""

    def check(self, *runs: Run) -> bool:
        """Check with these runs, all of which happen."""
        self.runs = list(runs)
        known = self.tester.check()
        assert self.runs == []
        return known


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    return Setup(tmp_path, monkeypatch)


def test_a_failure_that_a_busy_node_can_explain_counts_when_it_repeats(setup: Setup) -> None:
    assert setup.check(PLAIN, SLOW, PLAIN, PLAIN, HELD)
    assert setup.tester.problem == ""
    setup.driver.version = "580.65.06"
    assert setup.check(PLAIN, SLOW, PLAIN, PLAIN, SLOW, PLAIN)
    assert setup.tester.problem == (
        "its self-test on driver 580.65.06 failed: with the library, it did not end within 60 s, in cuMemAlloc_v2"
    )


def test_an_agent_that_stops_before_the_repetition_saves_no_failure(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop_late() -> None:
        if len(setup.runs) == 1:
            setup.tester.stop()

    monkeypatch.setattr(setup, "during_run", stop_late)
    assert not setup.check(PLAIN, SLOW, PLAIN)
    assert setup.new_tester().problem == "its self-test has not run yet"


def test_a_gpu_that_only_cuda_finds_broken_keeps_no_other_from_the_test(setup: Setup) -> None:
    broken = Run(problem="cuDevicePrimaryCtxRetain returned 46")
    assert not setup.check(broken)
    assert not setup.check(broken)
    assert not setup.check(broken)
    assert setup.check(PLAIN, HELD)
    first, second = (gpu.uuid for gpu in GPUS)
    assert setup.used == [first, second, first, second, second]
    assert setup.tester.problem == ""


def test_a_crash_counts_at_once(setup: Setup) -> None:
    assert setup.check(PLAIN, CRASHED, PLAIN)
    assert "failed: with the library, it was ended by SIGSEGV" in setup.tester.problem
    assert setup.check(), "it is not repeated"


def test_a_program_that_the_kernel_ended_for_memory_is_no_result(setup: Setup) -> None:
    assert not setup.check(PLAIN, KILLED, PLAIN)
    assert (
        "has no result yet: with the library, it was ended by SIGKILL in cuMemAlloc_v2"
        in setup.tester.problem
    )
    assert setup.new_tester().problem == "its self-test has not run yet", "nothing is kept of it"
    assert setup.check(PLAIN, HELD)
    assert setup.tester.problem == ""


def test_a_driver_that_does_not_answer_for_a_while_lowers_no_level(setup: Setup) -> None:
    assert setup.check(PLAIN, HELD)
    setup.driver.trouble = TIMES_OUT
    assert not setup.check(), "it asks again soon"
    assert setup.tester.problem == ""
    setup.driver.trouble = None
    setup.driver.version = "580.65.06"
    assert setup.check(PLAIN, CRASHED, PLAIN)
    setup.driver.trouble = TIMES_OUT
    assert not setup.check()
    assert "580.65.06 failed" in setup.tester.problem, "nor does it raise one"


def test_another_library_is_not_offered_while_the_driver_does_not_answer(setup: Setup) -> None:
    assert setup.check(PLAIN, HELD)
    setup.interposer.write_text("another")
    setup.driver.trouble = TIMES_OUT
    assert not setup.check()
    assert setup.tester.problem == f"its self-test cannot run: {TIMES_OUT}"
    assert setup.new_tester().problem == f"its self-test cannot run: {TIMES_OUT}"


def test_nothing_is_offered_before_the_driver_has_answered_once(setup: Setup) -> None:
    assert setup.check(PLAIN, HELD)
    setup.driver.trouble = TIMES_OUT
    assert setup.new_tester().problem == f"its self-test cannot run: {TIMES_OUT}"
    assert (setup.folders.agent_state / RESULTS_NAME).exists()


def test_a_library_that_is_replaced_during_its_test_has_no_result(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "during_run", lambda: setup.interposer.write_text("another"))
    assert not setup.check(PLAIN, HELD)
    assert "has no result yet: the library was replaced meanwhile" in setup.tester.problem
    setup.interposer.write_text("library")
    assert setup.new_tester().problem == "its self-test has not run yet"


def test_a_later_test_tests_again(setup: Setup, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert setup.check(PLAIN, HELD)
    later = tmp_path / "later.py"
    later.write_text("finds more")
    monkeypatch.setattr(tester_module, "PROGRAM", later)
    assert setup.check(PLAIN, CRASHED, PLAIN)
    assert "failed" in setup.tester.problem
