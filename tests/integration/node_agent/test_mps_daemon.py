"""Supervision of the MPS control daemon, with a stand-in program: there is no MPS without NVIDIA's driver and
a GPU."""

from __future__ import annotations

import logging
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from laneway.node_agent.enforcement.mps_control import PROGRAM, MPSControl, MPSFolders
from laneway.node_agent.enforcement.mps_daemon import MPSDaemon, MPSTiming

from tests.support.node_agent.node import eventually

GPUS = ["GPU-1", "GPU-2"]
QUICK = MPSTiming(start=60, check_interval=0.1, min_backoff=0.05, max_backoff=0.2)
FAKE = Path(__file__).with_name("fake_mps_control.py")


class Keeper:
    """A supervised daemon, and its reported problems."""

    def __init__(self, folders: MPSFolders, timing: MPSTiming = QUICK) -> None:
        self.folders = folders
        self.said: list[str] = []
        self._changed = threading.Condition()
        self.daemon = MPSDaemon(folders, GPUS, self._note, timing)

    def _note(self) -> None:
        with self._changed:
            self.said.append(self.daemon.problem)
            self._changed.notify_all()

    def until(self, what: str, holds: Callable[[list[str]], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: holds(self.said), 60), (
                f"not so: {what}; it said {self.said}"
            )

    @property
    def pid(self) -> int:
        return int((self.folders.pipe / "nvidia-cuda-mps-control.pid").read_text())

    @property
    def log(self) -> str:
        return (self.folders.log / "control.log").read_text()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in front of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def install(programs: Path) -> None:
    program = programs / PROGRAM
    program.write_text(f"#!{sys.executable} -S\n{FAKE.read_text()}")
    program.chmod(0o755)


@pytest.fixture
def keeper(programs: Path, tmp_path: Path) -> Iterator[Keeper]:
    made = Keeper(MPSFolders(tmp_path / "mps"))
    yield made
    made.daemon.stop()


def serves(said: list[str]) -> bool:
    return said[-1:] == [""]


def test_a_daemon_is_started_for_the_nodes_gpus_and_stopped_in_order(keeper: Keeper, programs: Path) -> None:
    install(programs)
    keeper.daemon.start()
    keeper.until("it serves", serves)
    assert keeper.daemon.problem == ""
    assert keeper.log.startswith("starting for GPU-1,GPU-2\n")
    assert MPSControl(keeper.folders).ask("get_server_list") == []
    assert stat.S_ISSOCK((keeper.folders.pipe / "control").stat().st_mode)
    pid = keeper.pid

    keeper.daemon.stop()

    assert keeper.log.splitlines()[-1] == "quit"
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_clients_reach_the_daemon_and_cannot_change_its_limits(keeper: Keeper, programs: Path) -> None:
    install(programs)
    keeper.daemon.start()
    keeper.until("it serves", serves)
    folder = keeper.folders.clients
    assert {each.name for each in folder.iterdir()} == {
        "control",
        "control_lock",
        "nvidia-cuda-mps-control.pid",
    }
    setting = "set_default_device_pinned_mem_limit GPU-1 1G"

    def as_client(command: str) -> str:
        environment = {**os.environ, "CUDA_MPS_PIPE_DIRECTORY": str(folder)}
        environment["CUDA_MPS_LOG_DIRECTORY"] = str(keeper.folders.log)
        return subprocess.run(
            [PROGRAM], input=command, env=environment, capture_output=True, text=True, check=True
        ).stdout

    MPSControl(keeper.folders).ask(setting)
    assert as_client("get_default_device_pinned_mem_limit GPU-1") == "1G\n"
    assert as_client(setting.replace("1G", "80G")) == "Permission denied\n"
    assert as_client("quit") == "Permission denied\n"

    os.kill(keeper.pid, signal.SIGKILL)
    keeper.until("it serves again", lambda said: len(said) == 3 and serves(said))
    assert as_client("get_default_active_thread_percentage") == "100.0\n", "the folder shows the new daemon"


def test_a_daemon_that_dies_is_started_again(keeper: Keeper, programs: Path) -> None:
    install(programs)
    keeper.daemon.start()
    keeper.until("it serves", serves)
    first = keeper.pid
    os.kill(first, signal.SIGKILL)
    keeper.until("it serves again", lambda said: len(said) == 3 and serves(said))
    assert keeper.said[1] == "the MPS control daemon ended: signal 9, it printed nothing"
    assert keeper.pid != first


def test_a_daemon_whose_answers_are_late_is_kept_for_a_while(
    programs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its end would be the end of its clients' work."""
    install(programs)
    keeper = Keeper(MPSFolders(tmp_path / "mps"), replace(QUICK, answer=2.0, late_answers=3))
    keeper.daemon.start()
    try:
        keeper.until("it serves", serves)
        first = keeper.pid
        with caplog.at_level(logging.WARNING):
            os.kill(first, signal.SIGSTOP)
            eventually("it is late", lambda: "does not answer checks=1 most=3" in caplog.text)
            os.kill(first, signal.SIGCONT)
            assert MPSControl(keeper.folders).ask("get_server_list") == []
            assert (keeper.pid, keeper.said) == (first, [""])
            os.kill(first, signal.SIGSTOP)
            keeper.until("another one serves", lambda said: len(said) == 3 and serves(said))
        assert keeper.pid != first
        assert "checks=3 most=3" in caplog.text
    finally:
        keeper.daemon.stop()


def test_a_daemon_that_dies_without_its_log_is_started_again(keeper: Keeper, programs: Path) -> None:
    install(programs)
    keeper.daemon.start()
    keeper.until("it serves", serves)
    for file in keeper.folders.log.iterdir():
        file.unlink()
    os.kill(keeper.pid, signal.SIGKILL)
    keeper.until("it serves again", lambda said: len(said) == 3 and serves(said))


def test_a_daemon_that_fails_is_quoted_and_tried_again(keeper: Keeper, programs: Path) -> None:
    install(programs)
    program = programs / PROGRAM
    works = program.read_text()
    program.write_text("#!/bin/sh\necho starting\necho no device >&2\nexit 1\n")
    keeper.daemon.start()
    keeper.until("it is quoted", lambda said: said != [])
    assert keeper.said == ["the MPS control daemon does not answer: exit status 1, no device"]
    scratch = programs / "new"
    scratch.write_text(works)
    scratch.chmod(0o755)
    scratch.replace(program)
    keeper.until("it serves", serves)


def test_a_program_that_is_installed_later_is_found(keeper: Keeper, programs: Path) -> None:
    keeper.daemon.start()
    keeper.until("it is missed", lambda said: said != [])
    assert keeper.said == ["nvidia-cuda-mps-control is not in this container"]
    install(programs)
    keeper.until("it serves", serves)


def test_a_daemon_that_another_process_started_is_kept_until_it_ends(keeper: Keeper, programs: Path) -> None:
    """Replacing it would end the work of its clients."""
    install(programs)
    keeper.folders.make()
    environment = {
        **os.environ,
        "CUDA_MPS_PIPE_DIRECTORY": str(keeper.folders.pipe),
        "CUDA_MPS_LOG_DIRECTORY": str(keeper.folders.log),
    }
    left = subprocess.Popen([programs / PROGRAM, "-f"], env=environment)
    eventually("it serves", (keeper.folders.pipe / "control").exists)
    keeper.daemon.start()
    keeper.until("it is found", serves)
    assert keeper.pid == left.pid
    left.kill()
    left.wait()
    keeper.until("it has its own", lambda said: len(said) == 3 and serves(said))
    assert keeper.said[1] == "the MPS control daemon ended: another process had started it"
    assert keeper.pid != left.pid


def test_an_answer_that_is_no_text_ends_no_supervision(programs: Path, tmp_path: Path) -> None:
    program = programs / PROGRAM
    program.write_text("#!/bin/sh\nprintf '\\377\\n'\n")
    program.chmod(0o755)
    assert MPSControl(MPSFolders(tmp_path / "mps")).ask("get_server_list") == ["\ufffd"]
