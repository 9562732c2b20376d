"""The connection to the agent: it may be closed, spoiled or unanswered, and the account is right again afterwards. Nothing fails without an agent."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.api.names import QUOTAS_NAME
from laneway.api.quotas_file import quotas_text

from tests.support.isolation.building import program as c_program
from tests.support.isolation.container import OK, OUT, OUT_OF_MEMORY, QUOTA, Container, Interpreter
from tests.support.isolation.fake_devices import MIB, FakeDevice

HALF = QUOTA // 2


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.01)


def touch(program: Interpreter) -> None:
    """A call that lets the library connect again."""
    pointer = program.allocate(1)[1]
    program.free(pointer)


def counted_again(container: Container, program: Interpreter, size: int) -> bool:
    touch(program)
    return container.charged == size


def test_threads_at_the_quotas_edge_never_exceed_it(container: Container) -> None:
    container.account.quotas[container.device.uuid] = 64 * MIB + 12345
    granted, refused = container.run(c_program("racing"))
    assert granted > 1000
    assert refused > 100
    assert container.account.highest <= 64 * MIB + 12345
    assert container.charged == container.device.used == 0


def test_a_program_that_closes_all_descriptors_is_counted_again(
    container: Container, program: Interpreter
) -> None:
    assert program.allocate(HALF)[0] == OK
    program.do("close_descriptors")
    until(lambda: counted_again(container, program, HALF))
    assert program.allocate(HALF + 1)[0] == OUT_OF_MEMORY


def test_a_foreign_descriptor_is_neither_written_nor_closed(
    container: Container, program: Interpreter
) -> None:
    assert program.allocate(HALF)[0] == OK
    assert program.do("take_socket_number") == [1]
    until(lambda: counted_again(container, program, HALF))
    assert program.do("read_pipe") == [0]


def test_garbage_in_the_socket_costs_the_connection_only(container: Container, program: Interpreter) -> None:
    assert program.allocate(HALF)[0] == OK
    for digits in ("00", "ff" * 40, "aa" * 4096):
        before = container.account.malformed
        program.do("write_garbage", digits)
        until(lambda before=before: container.account.malformed > before)
        until(lambda: counted_again(container, program, HALF))


def test_a_reply_to_a_forged_request_is_not_taken_for_another(
    container: Container, program: Interpreter
) -> None:
    assert program.allocate(MIB)[0] == OK
    # The program asks for 1 byte itself, as request number 999, and leaves the answer in the socket.
    forged = f"01000000 01000000 {container.device.uuid.hex()} 0100000000000000 e703000000000000"
    program.do("write_garbage", forged.replace(" ", ""))
    assert program.allocate(QUOTA)[0] == OUT_OF_MEMORY
    assert program.allocate(QUOTA - MIB)[0] == OUT_OF_MEMORY  # the forged byte is in the account
    assert program.allocate(QUOTA - MIB - 1)[0] == OK


def test_without_an_agent_calls_pass(container: Container) -> None:
    container.account.stop()
    program = container.start()
    try:
        assert program.allocate(2 * QUOTA)[0] == OK
        total = program.call("cuDeviceTotalMem_v2", OUT, 0)
        assert total == [OK, 1024 * MIB]
    finally:
        program.end()


@pytest.fixture
def quotas_file(directory: Path, container: Container) -> Iterator[Path]:
    """The file in the container's folder, with a quota of the first device only."""
    assert isinstance(container.device, FakeDevice)
    file = directory / QUOTAS_NAME
    file.write_text(quotas_text({"GPU-other": 1, container.device.name: QUOTA}))
    yield file
    file.unlink()


@pytest.mark.parametrize("absence", ["no socket", "silent"])
def test_without_an_agent_the_quota_of_the_containers_folder_holds(
    container: Container, quotas_file: Path, absence: str
) -> None:
    if absence == "silent":
        container.account.silent.set()
    else:
        container.account.stop()
    program = container.start()
    try:
        assert program.call("cuDeviceTotalMem_v2", OUT, 0) == [OK, QUOTA]
        first = program.allocate(HALF)
        assert first[0] == OK
        assert program.allocate(HALF + 1)[0] == OUT_OF_MEMORY
        assert program.do("fork_and_call", "cuMemAlloc_v2", OUT, HALF + 1)[0] == OUT_OF_MEMORY
        assert program.free(first[1]) == OK
        assert program.allocate(QUOTA)[0] == OK
        assert program.call("cuCtxCreate_v2", OUT, 0, 1)[0] == OK
        assert program.allocate(1)[0] == OUT_OF_MEMORY, "the container has no share of the second device"
    finally:
        program.end()


def test_the_agents_quota_replaces_that_of_the_containers_folder(
    container: Container, program: Interpreter, quotas_file: Path
) -> None:
    container.account.quotas[container.device.uuid] = HALF
    assert program.allocate(HALF + 1)[0] == OUT_OF_MEMORY
    container.account.stop()
    assert program.allocate(HALF + 1)[0] == OUT_OF_MEMORY
    assert program.allocate(HALF)[0] == OK


def test_a_program_without_descriptors_gets_no_memory_without_an_account(
    container: Container, program: Interpreter
) -> None:
    assert program.do("fill_descriptors")[0] > 0
    assert program.allocate(1)[0] == OUT_OF_MEMORY
    program.do("release_descriptors")
    assert program.allocate(HALF)[0] == OK
    assert container.charged == HALF
    child = "fork_and_call_without_descriptors"
    assert program.do(child, "cuMemAlloc_v2", OUT, 1)[0] == OUT_OF_MEMORY


def test_a_killed_agent_leaves_the_last_quota(container: Container, program: Interpreter) -> None:
    assert program.allocate(HALF)[0] == OK
    container.account.stop()
    assert program.allocate(HALF + 1)[0] == OUT_OF_MEMORY
    second = program.allocate(HALF)
    assert second[0] == OK
    assert program.free(second[1]) == OK
    assert program.do("fork_and_call", "cuMemAlloc_v2", OUT, HALF + 1)[0] == OUT_OF_MEMORY
    container.account.start()
    until(lambda: counted_again(container, program, HALF))
    assert (3, HALF) in container.account.requests


def test_a_silent_agent_delays_one_call_and_fails_none(container: Container, program: Interpreter) -> None:
    assert program.allocate(HALF)[0] == OK
    container.account.silent.set()
    asked = len(container.account.requests)
    pointers = [program.allocate(MIB)[1]]
    for _ in range(1000):
        assert program.free(pointers.pop()) == OK
        result, pointer = program.allocate(MIB)
        assert result == OK
        pointers.append(pointer)
        reservations = [kind for kind, _ in container.account.requests[asked:]].count(1)
        assert reservations == 1, "only the first call asks, and waits"
    assert program.allocate(HALF)[0] == OUT_OF_MEMORY, "the last quota holds"
    container.account.silent.clear()
    until(lambda: counted_again(container, program, HALF + MIB))


def test_frees_do_not_wait_for_a_stopped_agent(container: Container, program: Interpreter) -> None:
    assert program.allocate(HALF)[0] == OK
    pointers = [program.allocate(1024)[1] for _ in range(2000)]
    asked = len(container.account.requests)
    with container.account.stopped():
        for pointer in pointers:
            assert program.free(pointer) == OK
        assert program.allocate(HALF + 1)[0] == OUT_OF_MEMORY
        second = program.allocate(HALF)
        assert second[0] == OK
        assert program.free(second[1]) == OK
    until(lambda: counted_again(container, program, HALF))
    asked_for = [kind for kind, _ in container.account.requests[asked:]]
    assert container.account.accepted == 2, "one connection more, once the agent runs again"
    assert asked_for.count(2) < len(pointers), "the socket was full, and no free waited for it again"


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("allocate"), st.integers(1, QUOTA + MIB)),
        st.tuples(st.just("allocate"), st.sampled_from([1, MIB, HALF, QUOTA - 1, QUOTA, QUOTA + 1])),
        st.tuples(st.just("free"), st.integers(0, 9)),
        st.tuples(st.just("free twice"), st.integers(0, 9)),
    ),
    max_size=40,
)


def test_any_sequence_keeps_the_account_exact(container: Container, program: Interpreter) -> None:
    @settings(max_examples=60, deadline=None)
    @given(actions=ACTIONS)
    def check(actions: list[tuple[str, int]]) -> None:
        held: list[tuple[int, int]] = []
        for action, value in actions:
            used = sum(size for _, size in held)
            if action == "allocate":
                result, pointer = program.allocate(value)
                assert (result == OK) == (used + value <= QUOTA), (value, used)
                held += [(pointer, value)] if result == OK else []
            elif held:
                pointer, _ = held.pop(value % len(held))
                assert program.free(pointer) == OK
                if action == "free twice":
                    assert program.free(pointer) != OK
            assert container.charged == container.device.used == sum(size for _, size in held)
        for pointer, _ in held:
            assert program.free(pointer) == OK
        assert container.charged == 0

    check()


def test_what_the_program_is_told_is_the_containers(container: Container, program: Interpreter) -> None:
    other = container.start()
    try:
        assert other.allocate(30 * MIB)[0] == OK
        assert program.allocate(20 * MIB)[0] == OK
        assert program.call("cuMemGetInfo_v2", OUT, OUT) == [OK, HALF, QUOTA]
        assert program.call("cuDeviceTotalMem_v2", OUT, 0) == [OK, QUOTA]
        device = program.call("nvmlDeviceGetHandleByIndex_v2", 0, OUT)[1]
        three = "x" + "00" * 24
        result, answer = program.call("nvmlDeviceGetMemoryInfo", device, three)
        numbers = [int.from_bytes(bytes.fromhex(answer)[i : i + 8], "little") for i in (0, 8, 16)]
        assert (result, numbers) == (OK, [QUOTA, HALF, HALF])
        result, answer = program.call("nvmlDeviceGetMemoryInfo_v2", device, "x" + "00" * 40)
        numbers = [int.from_bytes(bytes.fromhex(answer)[i : i + 8], "little") for i in (8, 16, 24, 32)]
        assert (result, numbers) == (OK, [QUOTA, 0, HALF, HALF])
    finally:
        other.end()


def test_a_program_without_cuda_opens_nothing(container: Container) -> None:
    container.run("cat", os.devnull)
    assert container.account.requests == []
    assert container.account.connections == 0
