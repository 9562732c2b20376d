"""Memory of graphs' allocation nodes that no node of the graph frees: it outlives the executable graph, and counts until it is freed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.isolation.allocators import graph_of, graph_with_address
from tests.support.isolation.container import OK, OUT, OUT_OF_MEMORY, QUOTA, Container, Interpreter
from tests.support.isolation.fake_devices import MIB

HALF = QUOTA // 2
AUTO_FREE_ON_LAUNCH = 1


def instantiate(program: Interpreter, graph: int, flags: int = 0) -> int:
    result, executable = program.call("cuGraphInstantiateWithFlags", OUT, graph, flags)
    assert result == OK
    return int(executable)


def launched(program: Interpreter, size: int) -> tuple[int, int]:
    """An executable graph that has run once, and the address of its memory."""
    graph, address = graph_with_address(program, size)
    executable = instantiate(program, graph)
    assert program.call("cuGraphLaunch", executable, 0) == [OK]
    return executable, address


def trim(program: Interpreter) -> None:
    assert program.call("cuDeviceGraphMemTrim", 0) == [OK]


def free_in_a_captured_graph(program: Interpreter, address: int) -> None:
    stream = program.call("cuStreamCreate", OUT, 0)[1]
    assert program.call("cuStreamBeginCapture_v2", stream, 0) == [OK]
    assert program.call("cuMemFreeAsync", address, stream) == [OK]
    graph = program.call("cuStreamEndCapture", stream, OUT)[1]
    executable = instantiate(program, graph)
    assert program.call("cuGraphLaunch", executable, 0) == [OK]
    assert program.call("cuGraphExecDestroy", executable) == [OK]


def free_in_a_graph(program: Interpreter, address: int) -> None:
    graph = program.call("cuGraphCreate", OUT, 0)[1]
    assert program.call("cuGraphAddMemFreeNode", OUT, graph, 0, 0, address)[0] == OK
    assert program.call("cuGraphLaunch", instantiate(program, graph), 0) == [OK]


def reset(program: Interpreter, _: int) -> None:
    assert program.call("cuDevicePrimaryCtxReset_v2", 0) == [OK]


FREES: dict[str, Callable[[Interpreter, int], object]] = {
    "cuMemFree": lambda program, address: program.call("cuMemFree_v2", address),
    "cuMemFreeAsync": lambda program, address: program.call("cuMemFreeAsync", address, 0),
    "another graph": free_in_a_graph,
    "another graph, captured": free_in_a_captured_graph,
    "the end of the context": reset,
}


@pytest.mark.parametrize("way", FREES)
def test_it_counts_after_the_executable_graph_until_it_is_freed(
    container: Container, program: Interpreter, way: str
) -> None:
    executable, address = launched(program, HALF)
    assert program.call("cuGraphExecDestroy", executable) == [OK]
    trim(program)
    assert container.charged == container.device.used == HALF
    assert program.allocate(HALF + 1)[0] == OUT_OF_MEMORY
    FREES[way](program, address)
    trim(program)
    assert container.charged == container.device.used == 0
    assert program.call("cuMemFree_v2", address)[0] != OK
    assert program.allocate(QUOTA)[0] == OK
    assert container.charged == container.device.used == QUOTA


@pytest.mark.parametrize("way", [name for name in FREES if name != "the end of the context"])
def test_freed_memory_counts_while_its_graph_can_be_launched_again(
    container: Container, program: Interpreter, way: str
) -> None:
    executable, address = launched(program, HALF)
    for _ in range(3):
        FREES[way](program, address)
        trim(program)
        assert (container.charged, container.device.used) == (HALF, 0)
        assert program.call("cuGraphLaunch", executable, 0) == [OK]
        assert container.charged == container.device.used == HALF
    FREES[way](program, address)
    assert program.call("cuGraphExecDestroy", executable) == [OK]
    trim(program)
    assert container.charged == container.device.used == 0


def test_graphs_that_come_and_go_cannot_exceed_the_quota(container: Container, program: Interpreter) -> None:
    executable, _ = launched(program, 60 * MIB)
    assert program.call("cuGraphExecDestroy", executable) == [OK]
    for _ in range(5):
        graph = graph_of(program, 60 * MIB)
        assert program.call("cuGraphInstantiateWithFlags", OUT, graph, 0)[0] == OUT_OF_MEMORY
    assert container.charged == container.device.used == 60 * MIB


def test_a_launch_that_the_driver_refuses_gives_no_memory(container: Container, program: Interpreter) -> None:
    executable, address = launched(program, HALF)
    assert program.call("cuGraphLaunch", executable, 0)[0] != OK, "its memory is not freed yet"
    assert program.call("cuMemFree_v2", address) == [OK]
    container.account.quotas[container.device.uuid] = 1 << 50
    large = instantiate(program, graph_of(program, 2 << 30))
    assert program.call("cuGraphLaunch", large, 0) == [OUT_OF_MEMORY]
    for each in (executable, large):
        assert program.call("cuGraphExecDestroy", each) == [OK]
    trim(program)
    assert container.charged == container.device.used == 0


def test_a_launch_that_frees_what_the_last_one_left_counts_once(
    container: Container, program: Interpreter
) -> None:
    graph, address = graph_with_address(program, HALF)
    for _ in range(2):
        executable = instantiate(program, graph, AUTO_FREE_ON_LAUNCH)
        for _ in range(3):
            assert program.call("cuGraphLaunch", executable, 0) == [OK]
            assert container.charged == container.device.used == HALF
        assert program.call("cuGraphExecDestroy", executable) == [OK]
        assert container.charged == container.device.used == HALF
    assert program.free(address) == OK
    trim(program)
    assert container.charged == container.device.used == 0


def test_a_graph_that_never_ran_leaves_nothing(container: Container, program: Interpreter) -> None:
    executable = instantiate(program, graph_of(program, HALF))
    assert (container.charged, container.device.used) == (HALF, 0)
    assert program.call("cuGraphExecDestroy", executable) == [OK]
    assert container.charged == 0


def test_the_end_of_another_context_frees_none_of_it(container: Container, program: Interpreter) -> None:
    context = program.call("cuCtxCreate_v2", OUT, 0, 0)[1]
    executable = instantiate(program, graph_of(program, HALF))
    assert program.call("cuCtxPopCurrent_v2", OUT) == [OK, context]
    assert program.call("cuGraphLaunch", executable, 0) == [OK]
    assert program.call("cuGraphExecDestroy", executable) == [OK]
    assert program.call("cuCtxDestroy_v2", context) == [OK]
    assert container.charged == container.device.used == HALF


def test_the_end_of_a_green_context_frees_none_of_it(container: Container, program: Interpreter) -> None:
    green = program.call("cuGreenCtxCreate", OUT, 0, 0, 1)[1]
    context = program.call("cuCtxFromGreenCtx", OUT, green)[1]
    assert program.call("cuCtxSetCurrent", context) == [OK]
    executable, _ = launched(program, HALF)
    assert program.call("cuGraphExecDestroy", executable) == [OK]
    assert program.call("cuGreenCtxDestroy", green) == [OK]
    assert container.charged == container.device.used == HALF
    assert program.call("cuDevicePrimaryCtxRelease_v2", 0) == [OK]
    trim(program)
    assert container.charged == container.device.used == 0
