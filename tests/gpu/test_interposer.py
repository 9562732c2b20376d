"""The interposer's account in front of the driver: what it counts for each allocator, what it refuses, and what programs see.

The tests of `tests/isolation` have the details on a fake driver. These are the ones that depend on the driver's own behaviour.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest
from laneway.node_agent.self_test.cuda_program import PIECE_BYTES
from laneway.node_agent.self_test.evaluation import SelfTestResult, evaluate
from laneway.node_agent.self_test.private_account import PrivateAccount
from laneway.node_agent.self_test.program_runner import ProgramRunner
from laneway.node_agent.self_test.tester import QUOTA_BYTES, InterposerTester

from tests.support.gpu.driver_container import driver_container
from tests.support.gpu.interposer import why_no_interposer
from tests.support.gpu.workstation import Worker, Workstation
from tests.support.isolation.allocators import ALLOCATORS, created, graph_of
from tests.support.isolation.building import PROGRAMS
from tests.support.isolation.container import OK, OUT, OUT_OF_MEMORY, Container, Interpreter
from tests.support.isolation.fake_devices import MIB
from tests.support.node_agent.node import eventually

PIECE = 64 * MIB
"""A quarter of the quota."""

PADDED = ("cuArrayCreate", "cuArray3DCreate", "cuMipmappedArrayCreate")
RESERVED_BYTES = 5
"""CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT"""

GIB = 1 << 30


@pytest.fixture(scope="module")
def container(workstation: Workstation) -> Iterator[Container]:
    """256 MiB of the first GPU, for all tests: none of them leaves anything in the account."""
    if why := why_no_interposer():
        pytest.skip(why)
    with driver_container(workstation, "account", 4 * PIECE) as made:
        yield made


@pytest.fixture
def program(container: Container) -> Iterator[Interpreter]:
    interpreter = container.start()
    yield interpreter
    interpreter.end()


def reserved_bytes(program: Interpreter) -> int:
    """What the driver has reserved for the default pool."""
    result, pool = program.call("cuDeviceGetDefaultMemPool", OUT, 0)
    assert result == OK
    answer = program.call("cuMemPoolGetAttribute", pool, RESERVED_BYTES, OUT)
    assert answer[0] == OK
    return int(answer[1])


@pytest.mark.parametrize("name", ALLOCATORS)
def test_an_allocator_counts_with_what_it_takes_and_ends_at_the_quota(
    container: Container, program: Interpreter, name: str
) -> None:
    allocate, free = ALLOCATORS[name]
    result, pointer = allocate(program, PIECE)
    assert result == OK, f"{name} failed with CUresult {result}"
    counted = container.charged
    if name in PADDED:
        assert PIECE <= counted <= 2 * PIECE
    elif "Async" in name:
        assert counted == max(PIECE, reserved_bytes(program))
    else:
        assert counted == PIECE
    pointers = [pointer]
    while (answer := allocate(program, PIECE))[0] == OK and len(pointers) < 5:
        pointers.append(answer[1])
    assert answer[0] == OUT_OF_MEMORY, f"{name} failed with CUresult {answer[0]}"
    assert len(pointers) == container.quota // counted
    assert container.charged <= container.quota
    assert [free(program, each) for each in pointers] == [OK] * len(pointers)
    assert container.charged == 0
    assert allocate(program, PIECE)[0] == OK


def test_a_mapped_handle_counts_until_it_is_unmapped(container: Container, program: Interpreter) -> None:
    handle = created(program, PIECE)[1]
    address = program.call("cuMemAddressReserve", OUT, PIECE, 0, 0, 0)[1]
    assert program.call("cuMemMap", address, PIECE, 0, handle, 0) == [OK]
    assert program.call("cuMemRelease", handle) == [OK]
    assert container.charged == PIECE
    assert program.call("cuMemUnmap", address, PIECE) == [OK]
    assert container.charged == 0


def test_a_graph_with_an_allocation_counts_from_its_instantiation(
    container: Container, program: Interpreter
) -> None:
    small, large = graph_of(program, PIECE), graph_of(program, container.quota + MIB)
    assert program.call("cuGraphInstantiateWithFlags", OUT, large, 0)[0] == OUT_OF_MEMORY
    result, executable = program.call("cuGraphInstantiateWithFlags", OUT, small, 0)
    assert result == OK
    assert container.charged >= PIECE
    assert program.call("cuGraphExecDestroy", executable) == [OK]
    assert program.call("cuDeviceGraphMemTrim", 0) == [OK]
    assert container.charged == 0


@pytest.mark.parametrize("version", [11030, 12000])
def test_a_function_of_get_proc_address_is_held(
    container: Container, program: Interpreter, version: int
) -> None:
    assert program.do("call_found", "cuMemAlloc", version, OUT, container.quota + 1)[0] == OUT_OF_MEMORY
    assert program.do("call_found", "cuMemAlloc", version, OUT, PIECE)[0] == OK
    assert container.charged == PIECE


def test_programs_see_the_quota(container: Container, program: Interpreter) -> None:
    assert program.allocate(PIECE)[0] == OK
    quota = container.quota
    assert program.call("cuMemGetInfo_v2", OUT, OUT) == [OK, quota - PIECE, quota]
    assert program.call("cuDeviceTotalMem_v2", OUT, 0) == [OK, quota]
    assert program.call("nvmlInit_v2") == [OK]
    device = program.call("nvmlDeviceGetHandleByIndex_v2", 0, OUT)[1]
    name = bytes.fromhex(program.call("nvmlDeviceGetUUID", device, "x" + "00" * 96, 96)[1])
    if name.rstrip(b"\0").decode().replace("-", "").lower().endswith(container.device.uuid.hex()):
        result, answer = program.call("nvmlDeviceGetMemoryInfo", device, "x" + "00" * 24)
        numbers = [int.from_bytes(bytes.fromhex(answer)[i : i + 8], "little") for i in (0, 8, 16)]
        assert (result, numbers) == (OK, [quota, quota - PIECE, PIECE])


def test_all_processes_of_a_container_have_one_account(container: Container, program: Interpreter) -> None:
    forks = container.start_without_cuda()
    try:
        assert program.allocate(2 * PIECE)[0] == OK
        assert forks.do("fork_and_allocate", 2 * PIECE + 1) == [OK, OK, OK, OUT_OF_MEMORY]
        assert forks.do("fork_and_allocate", 2 * PIECE) == [OK, OK, OK, OK]
        assert forks.do("use_first_device") == [OK, OK, OK]
        assert forks.allocate(2 * PIECE)[0] == OK
        assert container.charged == container.quota
    finally:
        forks.end()
    assert container.charged == 2 * PIECE


def test_an_exec_gives_back_and_is_held_again(container: Container) -> None:
    assert container.run(sys.executable, PROGRAMS / "exec_again.py", str(container.quota)) == [OK, OK]
    assert (
        container.run(sys.executable, PROGRAMS / "exec_again.py", str(container.quota + 1))
        == [OUT_OF_MEMORY] * 2
    )


ALLOCATOR_OPTIONS = {
    "caching": "",
    "expandable segments": "expandable_segments:True",
    "cudaMallocAsync": "backend:cudaMallocAsync",
}


@pytest.mark.parametrize("name", ALLOCATOR_OPTIONS)
def test_pytorch_recovers_from_a_refusal(workstation: Workstation, name: str) -> None:
    if workstation.device != "cuda":
        pytest.skip("PyTorch on a CPU does not call the driver")
    if why := why_no_interposer():
        pytest.skip(why)
    folder = f"torch-{name.replace(' ', '-')}"
    with driver_container(workstation, folder, 4 * GIB) as container:
        variables = {
            "LD_PRELOAD": str(container.interposer),
            "PYTORCH_CUDA_ALLOC_CONF": ALLOCATOR_OPTIONS[name],
        }
        worker = workstation.plain(folder, **variables)
        try:
            worker.do("train", iterations=3)
            shown = worker.do("gpu_memory")
            assert (shown["total_bytes"], shown["nvml_total_bytes"]) == (4 * GIB, 4 * GIB), shown
            # The allocator's memory, and what cuBLAS and cuDNN take beside it.
            assert shown["reserved_bytes"] <= container.charged <= shown["reserved_bytes"] + GIB, shown
            first = worker.do("outgrow", size_bytes=GIB // 4)
            assert "out of memory" in first["message"], first
            assert 8 <= first["taken"] <= 16, first
            assert first["reserved_bytes"] <= 4 * GIB, first
            assert container.account.highest <= 4 * GIB
            assert worker.do("outgrow", size_bytes=GIB // 4)["taken"] >= first["taken"], "nothing is lost"
            assert container.charged <= shown["reserved_bytes"] + GIB
            worker.do("train", iterations=3)
        finally:
            worker.end()


def test_a_training_with_its_client_has_the_agents_account_and_is_not_gated_as_well(
    workstation: Workstation, job: Callable[..., Worker]
) -> None:
    if workstation.device != "cuda":
        pytest.skip("PyTorch on a CPU does not call the driver")
    if why := why_no_interposer():
        pytest.skip(why)
    worker = job("both", 20, interposed=True)
    worker.train_until_told(gap_seconds=0.001)
    eventually("it trains", lambda: workstation.node.session("both")["iterations"] > 20, seconds=120)
    worker.enough()
    session = workstation.node.session("both")
    assert [process["pid"] for process in session["processes"] if process["connected"]] == [worker.pid], (
        session
    )
    shown = worker.do("gpu_memory")
    assert shown["total_bytes"] == session["quota_bytes"], (shown, session)
    assert shown["free_bytes"] <= shown["total_bytes"] - shown["reserved_bytes"], shown


def test_the_agents_self_test_passes_on_this_driver(workstation: Workstation) -> None:
    """The same program and account by which an agent decides whether its node offers the interposer."""
    if why := why_no_interposer():
        pytest.skip(why)
    quota_bytes, beyond_bytes = QUOTA_BYTES, QUOTA_BYTES + PIECE_BYTES
    with driver_container(workstation, "self-test") as made, pytest.MonkeyPatch.context() as environment:
        made.account.stop()
        for name, value in made.variables.items():
            environment.setenv(name, value)
        device = made.device
        runner = ProgramRunner(InterposerTester.LIMIT_SECONDS)
        plain = runner.run(device.name, device.uuid, 0)
        with PrivateAccount(made.account.folder / "account.sock", device.uuid, quota_bytes) as account:
            interposed = runner.run(device.name, device.uuid, beyond_bytes, made.interposer)
    assert evaluate(plain, interposed, account.use, quota_bytes) == SelfTestResult(True), (plain, interposed)
