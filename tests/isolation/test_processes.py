"""Processes of one container share one account, however they came to be and however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.support.isolation.building import PROGRAMS
from tests.support.isolation.building import program as c_program
from tests.support.isolation.container import OK, OUT, OUT_OF_MEMORY, QUOTA, Container, Interpreter
from tests.support.isolation.fake_devices import MIB

HALF = QUOTA // 2


def test_two_processes_have_one_quota(container: Container, program: Interpreter) -> None:
    other = container.start()
    try:
        assert program.allocate(HALF + MIB)[0] == OK
        assert other.allocate(HALF)[0] == OUT_OF_MEMORY
        assert other.allocate(HALF - MIB)[0] == OK
        assert container.charged == container.device.used == QUOTA
    finally:
        other.end()
    assert container.charged == HALF + MIB


@pytest.mark.parametrize("way", ["fork", "clone"])
def test_a_fork_bomb_of_small_allocations_gets_the_quota_once(container: Container, way: str) -> None:
    with container.running(c_program("forking"), way) as printed:
        assert printed == QUOTA // MIB
        assert container.charged == container.device.used == QUOTA
    assert container.charged == container.device.used == 0
    assert container.account.highest == QUOTA


def test_a_child_cannot_give_back_what_its_parent_holds(container: Container, program: Interpreter) -> None:
    pointer = program.allocate(HALF)[1]
    program.do("fork_and_call", "cuMemFree_v2", pointer)
    assert container.charged == container.device.used == HALF
    assert program.do("fork_and_call", "cuMemAlloc_v2", OUT, HALF + MIB)[0] == OUT_OF_MEMORY
    assert container.charged == HALF


def test_an_exec_ends_the_connection_and_begins_another(container: Container) -> None:
    assert container.run(sys.executable, PROGRAMS / "exec_again.py", str(QUOTA)) == [OK, OK]
    assert [request for request in container.account.requests if request[0] == 1] == [(1, QUOTA)] * 2


def test_a_killed_process_gives_everything_back(container: Container, program: Interpreter) -> None:
    program.allocate(QUOTA)
    program.process.send_signal(signal.SIGKILL)
    program.process.wait()
    assert container.charged == container.device.used == 0


def test_a_kill_in_the_middle_of_an_allocation_gives_everything_back(container: Container) -> None:
    for _ in range(20):
        racing = subprocess.Popen(
            [c_program("racing")], env=container.environment(), stdout=subprocess.DEVNULL
        )
        while container.account.connections == 0 and racing.poll() is None:
            os.sched_yield()
        racing.kill()
        racing.wait()
        assert container.charged == container.device.used == 0
    assert container.account.highest <= QUOTA


def test_locks_survive_signals_cancellation_and_forks(container: Container) -> None:
    assert container.run(c_program("interrupted")) == [1, OK]


def test_a_pool_is_not_asked_for_after_its_end(container: Container) -> None:
    assert container.run(c_program("pooling")) == [0]
    assert container.charged == container.device.used == 0


@pytest.mark.parametrize(
    ("call", "size", "result", "held"),
    [
        ("allocate", 70 * MIB, OK, 70 * MIB),
        ("allocate", QUOTA + MIB, OUT_OF_MEMORY, 0),
        ("free", 70 * MIB, OK, 0),
    ],
)
def test_a_call_whose_capture_ends_before_it_is_made_counts(
    container: Container, call: str, size: int, result: int, held: int
) -> None:
    with container.running(c_program("captured"), call, str(size)) as printed:
        assert printed == result
        assert container.charged == container.device.used == held


def test_a_pool_that_is_made_while_another_ends_counts(container: Container) -> None:
    with container.running(c_program("ending")) as printed:
        assert printed == 0
        assert container.charged == container.device.used == 70 * MIB


@pytest.mark.parametrize(
    "call",
    ["cuMemRelease", "cuMemUnmap", "cuGraphExecDestroy", "cuCtxDestroy", "cuDevicePrimaryCtxReset"],
)
def test_a_handle_that_another_thread_gets_before_its_end_is_told_counts(
    container: Container, call: str
) -> None:
    with container.running(c_program("reusing"), call) as printed:
        assert printed == 0
        assert container.charged == 70 * MIB
        # A graph counts before it is launched.
        assert container.device.used == (0 if call == "cuGraphExecDestroy" else 70 * MIB)


def test_the_pointer_of_another_process_frees_nothing(container: Container, program: Interpreter) -> None:
    other = container.start()
    try:
        pointer = program.allocate(HALF)[1]
        assert other.free(pointer) != OK
        assert container.charged == HALF
    finally:
        other.end()


def test_a_second_free_gives_nothing_back(container: Container, program: Interpreter) -> None:
    pointer = program.allocate(HALF)[1]
    program.allocate(MIB)
    assert program.free(pointer) == OK
    assert program.free(pointer) != OK
    assert program.free(pointer + 512) != OK
    assert container.charged == container.device.used == MIB
