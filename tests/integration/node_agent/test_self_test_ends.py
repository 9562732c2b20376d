"""How the interposer's self-test ends when its program does not end by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from laneway.api.names import INTERPOSER_NAME
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.gpus.protocol import GPUInfo, GPUReading
from laneway.node_agent.host_folders import HostFolders
from laneway.node_agent.self_test import program_runner
from laneway.node_agent.self_test.program_runner import ProgramRunner
from laneway.node_agent.self_test.results_file import RESULTS_NAME, ResultsRecord
from laneway.node_agent.self_test.tester import InterposerTester

from tests.support.node_agent.node import eventually

UUID = "GPU-11111111-0000-0000-0000-000000000000"


class Driver:
    """The driver, as far as the tester asks it."""

    def driver_version(self) -> str:
        return "570.86.15"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Replaces the self-test's program."""

    def replace(text: str) -> None:
        path = tmp_path / "program.py"
        path.write_text(f"import os, pathlib, signal, time\n{text}\n")
        monkeypatch.setattr(program_runner, "PROGRAM", path)

    return replace


@pytest.fixture
def tester(tmp_path: Path) -> InterposerTester:
    folders = HostFolders(tmp_path)
    folders.make()
    folders.client.mkdir(parents=True)
    (folders.client / INTERPOSER_NAME).touch()
    gpus = (GPUInfo(UUID, 0, "Test", 80 << 30),)
    health = GPUHealth(reading=GPUReading(used_bytes=0))
    return InterposerTester(Driver(), gpus, lambda uuid: health, folders, 1.0)  # type: ignore[arg-type]


def test_a_test_that_the_agents_end_cuts_off_is_no_interruption(
    tester: InterposerTester, program: Callable[[str], None], tmp_path: Path
) -> None:
    """The agent may be replaced at any moment, also twice. After two interruptions it would never test again."""
    program(f"pathlib.Path({str(tmp_path / 'began')!r}).touch()\nsignal.pause()")
    tester.start()
    eventually("the program runs", (tmp_path / "began").exists)
    assert saved_interruptions(tmp_path) == [1], "it would count, if the agent crashed now"
    tester.stop()
    assert saved_interruptions(tmp_path) == []


def test_a_program_whose_answer_is_no_result_is_no_interruption(
    tester: InterposerTester, program: Callable[[str], None], tmp_path: Path
) -> None:
    program("print('not JSON')")
    assert not tester.check(), "it cannot run without the library either"
    assert saved_interruptions(tmp_path) == []


@pytest.mark.parametrize(("number", "killed"), [("SIGKILL", True), ("SIGSEGV", False)])
def test_only_sigkill_says_nothing_of_the_library(
    program: Callable[[str], None], number: str, killed: bool
) -> None:
    program(f"os.kill(os.getpid(), signal.{number})")
    run = ProgramRunner(60).run(UUID, bytes(16), 0)
    assert run.problem == f"it was ended by {number} before its first call of the driver"
    assert (run.found, run.killed) == (None, killed)


def test_a_program_that_the_runner_kills_at_its_limit_hung(
    program: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_runner, "_KILL_SECONDS", 1.0)
    program("signal.pause()")
    run = ProgramRunner(0).run(UUID, bytes(16), 0)
    assert (run.found, run.killed) == (None, False)


def saved_interruptions(root: Path) -> list[int]:
    """Return how often a test is saved as interrupted, for each driver and library."""
    file = HostFolders(root).agent_state / RESULTS_NAME
    return [each.interruptions for each in ResultsRecord.model_validate_json(file.read_bytes()).results]
