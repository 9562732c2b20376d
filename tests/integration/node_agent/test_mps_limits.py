"""The limits that the agent sets in the MPS control daemon and reads back, with a stand-in program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from laneway.node_agent.enforcement.mps_control import PROGRAM, MPSControl, MPSFolders
from laneway.node_agent.enforcement.mps_limits import LOST, MPSLimits, WantedLimits, limit_holds
from laneway.node_agent.enforcement.mps_limits_file import MPSLimitsFile

from tests.support.node_agent.node import eventually

GPUS = ["GPU-1", "GPU-2"]
GIB = 1 << 30
FAKE = Path(__file__).with_name("fake_mps_control.py")
FIRST = WantedLimits({"GPU-1": 24 * GIB, "GPU-2": GIB // 2}, 30)
LARGER = WantedLimits({"GPU-1": 40 * GIB, "GPU-2": GIB // 2}, 50)


class Daemon:
    """The stand-in for the daemon."""

    def __init__(self, folders: MPSFolders) -> None:
        self.control = MPSControl(folders)
        self._folders = folders
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, **environment: str) -> None:
        self._folders.make()
        for left in self._folders.pipe.iterdir():
            left.unlink()
        variables = {**self.control.environment, "CUDA_VISIBLE_DEVICES": ",".join(GPUS), **environment}
        self._process = subprocess.Popen([PROGRAM, "-f"], env=variables)
        eventually("it serves", (self._folders.pipe / "control_privileged").exists)

    def forget(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGUSR1)

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def default(self, gpu: str) -> list[str]:
        return self.control.ask(f"get_default_device_pinned_mem_limit {gpu}")


class Keeper:
    """What the agent has of the limits, and what it published of one GPU."""

    def __init__(self, control: MPSControl, agent_state: Path) -> None:
        self.published: list[tuple[str, int | None]] = []
        self._changed = threading.Condition()
        self.limits = MPSLimits(control, GPUS, MPSLimitsFile(agent_state), self._note, check_seconds=0.2)

    def _note(self) -> None:
        limit = self.limits.limit("GPU-1")
        with self._changed:
            self.published.append(
                (self.limits.problem("GPU-1"), None if limit is None else limit.limit_bytes)
            )
            self._changed.notify_all()

    def until(self, what: str, holds: Callable[[list[tuple[str, int | None]]], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: holds(self.published), 60), (
                f"not so: {what}; published {self.published}"
            )

    def holds(self, limit_bytes: int) -> None:
        self.until("the limit is confirmed", lambda published: published[-1:] == [("", limit_bytes)])


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    program = tmp_path / "bin" / PROGRAM
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable} -S\n{FAKE.read_text()}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    made = Daemon(MPSFolders(tmp_path / "mps"))
    yield made
    made.end()


@pytest.fixture
def make_keeper(daemon: Daemon, tmp_path: Path) -> Iterator[Callable[[], Keeper]]:
    """Makes what an agent process has; each one stands for a restart."""
    made: list[Keeper] = []

    def make() -> Keeper:
        for earlier in made:
            earlier.limits.stop()
        keeper = Keeper(daemon.control, tmp_path)
        made.append(keeper)
        keeper.limits.start()
        return keeper

    yield make
    for keeper in made:
        keeper.limits.stop()


def test_limits_are_published_once_the_daemon_reads_them_back(
    daemon: Daemon, make_keeper: Callable[[], Keeper]
) -> None:
    daemon.start()
    daemon.control.ask("start_server -uid 0")
    (server,) = daemon.control.ask("get_server_list")
    keeper = make_keeper()
    keeper.limits.want(FIRST)
    keeper.holds(24 * GIB)

    assert daemon.default("GPU-1") == ["24G"]
    assert daemon.default("GPU-2") == ["512M"]
    assert daemon.control.ask("get_default_active_thread_percentage") == ["30.0"]
    assert daemon.control.ask(f"get_device_pinned_mem_limit {server} GPU-1") == ["24G"], "it runs already"

    keeper.limits.want(LARGER)
    keeper.holds(40 * GIB)
    assert daemon.control.ask(f"get_device_pinned_mem_limit {server} GPU-1") == ["40G"]
    assert daemon.control.ask(f"get_active_thread_percentage {server}") == ["50.0"]


def test_a_daemon_that_keeps_no_limits_is_not_believed(
    daemon: Daemon, make_keeper: Callable[[], Keeper]
) -> None:
    daemon.start(FAKE_MPS_KEEPS="0")
    keeper = make_keeper()
    keeper.limits.want(FIRST)
    said = "the MPS control daemon reads back no limit instead of the limit of 24.0 GiB"
    keeper.until("it says so", lambda published: published[-1:] == [(said, None)])


def test_a_daemon_that_forgets_its_limits_loses_the_level_until_they_are_read_back_twice(
    daemon: Daemon, make_keeper: Callable[[], Keeper]
) -> None:
    daemon.start()
    keeper = make_keeper()
    keeper.limits.want(FIRST)
    keeper.holds(24 * GIB)
    daemon.forget()
    keeper.until("it is seen", lambda published: (LOST, None) in published)
    keeper.holds(24 * GIB)
    assert daemon.default("GPU-1") == ["24G"]


def test_a_daemon_that_ends_takes_the_level_with_it_and_its_successor_gets_the_limits(
    daemon: Daemon, make_keeper: Callable[[], Keeper]
) -> None:
    keeper = make_keeper()
    keeper.limits.want(FIRST)
    gone = "the MPS control daemon does not answer: Cannot find MPS control daemon process"
    keeper.until("there is none", lambda published: published == [(gone, None)])
    daemon.start()
    keeper.holds(24 * GIB)
    daemon.end()
    keeper.until("it is missed", lambda published: published[-1] == (gone, None))
    daemon.start()
    keeper.holds(24 * GIB)
    assert daemon.default("GPU-1") == ["24G"]


def test_a_program_that_is_missing_is_named(
    daemon: Daemon, make_keeper: Callable[[], Keeper], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    keeper = make_keeper()
    keeper.limits.want(FIRST)
    said = "nvidia-cuda-mps-control is not in the agent's container"
    keeper.until("it is missed", lambda published: published == [(said, None)])


def test_a_restarted_agent_knows_which_processes_the_limit_holds(
    daemon: Daemon, make_keeper: Callable[[], Keeper]
) -> None:
    """A client keeps the limit of the moment in which it connected."""
    daemon.start()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as early:
        keeper = make_keeper()
        keeper.limits.want(FIRST)
        keeper.holds(24 * GIB)
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as client:
            restarted = make_keeper()
            restarted.limits.want(FIRST)
            restarted.holds(24 * GIB)
            limit = restarted.limits.limit("GPU-1")
            assert limit == keeper.limits.limit("GPU-1"), "the daemon kept it, so nothing was set"
            assert limit_holds(limit, 24 * GIB, {client.pid})
            assert not limit_holds(limit, 24 * GIB - 1, {client.pid}), "its quota is smaller"
            assert not limit_holds(limit, 24 * GIB, {client.pid, early.pid}), "it may have connected before"

            restarted.limits.want(LARGER)
            restarted.holds(40 * GIB)
            assert limit_holds(restarted.limits.limit("GPU-1"), 40 * GIB, {client.pid}), "it has a lower one"
            restarted.limits.want(FIRST)
            restarted.holds(24 * GIB)
            assert not limit_holds(restarted.limits.limit("GPU-1"), 24 * GIB, {client.pid}), (
                "it may have connected while the limit was higher"
            )
