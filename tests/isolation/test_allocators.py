"""Each way in which the driver gives memory: it counts exactly, and the quota refuses what is beyond it."""

from __future__ import annotations

import pytest

from tests.support.isolation.allocators import ALLOCATORS, created, graph_of, hexadecimal
from tests.support.isolation.container import OK, OUT, OUT_OF_MEMORY, QUOTA, Container, Interpreter
from tests.support.isolation.fake_devices import MIB

HALF = QUOTA // 2


@pytest.mark.parametrize("name", ALLOCATORS)
def test_it_counts_exactly_and_ends_at_the_quota(
    container: Container, program: Interpreter, name: str
) -> None:
    allocate, free = ALLOCATORS[name]
    first, second = allocate(program, HALF), allocate(program, HALF)
    assert (first[0], second[0]) == (OK, OK)
    assert container.charged == container.device.used == QUOTA
    assert allocate(program, 2 * MIB)[0] == OUT_OF_MEMORY
    assert program.allocate(1)[0] == OUT_OF_MEMORY
    assert free(program, first[1]) == OK
    assert container.charged == container.device.used == HALF
    assert allocate(program, HALF)[0] == OK


ODD_ARRAYS = {
    "flat": ("cuArrayCreate_v2", hexadecimal("QQiI", 1001, 2003, 1, 1), ()),
    "flat, 16 bits": ("cuArrayCreate_v2", hexadecimal("QQiI", 77, 999, 0x10, 2), ()),
    "of 3 dimensions": ("cuArray3DCreate_v2", hexadecimal("QQQiII", 65, 65, 65, 1, 1, 0), ()),
    "layered": ("cuArray3DCreate_v2", hexadecimal("QQQiII", 65, 65, 7, 1, 1, 1), ()),
    "mipmapped": ("cuMipmappedArrayCreate", hexadecimal("QQQiII", 999, 999, 9, 1, 1, 0), (4,)),
    "mipmapped and layered": ("cuMipmappedArrayCreate", hexadecimal("QQQiII", 999, 999, 9, 1, 1, 1), (4,)),
}


@pytest.mark.parametrize("name", ODD_ARRAYS)
def test_an_arrays_padding_counts(container: Container, program: Interpreter, name: str) -> None:
    create, description, rest = ODD_ARRAYS[name]
    assert program.call(create, OUT, description, *rest)[0] == OK
    assert container.charged == container.device.used > 0


@pytest.mark.parametrize("name", ODD_ARRAYS)
def test_without_the_drivers_word_an_array_counts_with_the_most_that_it_can_take(
    container: Container, name: str
) -> None:
    create, description, rest = ODD_ARRAYS[name]
    program = container.start(FAKE_CUDA_WITHOUT_DEFERRED_MAPPING="1")
    try:
        assert program.call(create, OUT, description, *rest)[0] == OK
        assert container.charged >= container.device.used > 0
    finally:
        program.end()


def test_an_array_that_is_mapped_later_has_no_memory(container: Container, program: Interpreter) -> None:
    description = hexadecimal("QQQiII", 1000, 1000, 0, 1, 1, 0x80)
    assert program.call("cuArray3DCreate_v2", OUT, description)[0] == OK
    assert container.charged == container.device.used == 0


def test_a_refusal_of_the_driver_gives_the_bytes_back(container: Container, program: Interpreter) -> None:
    container.account.quotas[container.device.uuid] = 1 << 50
    assert program.allocate(2 << 30)[0] == OUT_OF_MEMORY
    assert container.charged == 0


def test_a_pool_counts_with_what_it_keeps(container: Container, program: Interpreter) -> None:
    pool = program.call("cuDeviceGetDefaultMemPool", OUT, 0)[1]
    assert program.call("cuMemPoolSetAttribute", pool, 4, hexadecimal("Q", 1 << 40))[0] == OK
    pointer = program.call("cuMemAllocAsync", OUT, HALF, 0)[1]
    assert program.call("cuMemFreeAsync", pointer, 0) == [OK]
    assert program.call("cuCtxSynchronize") == [OK]
    assert container.charged == container.device.used == HALF
    assert program.call("cuMemAllocAsync", OUT, HALF, 0)[0] == OK
    assert container.charged == container.device.used == HALF


def test_what_a_pool_keeps_is_given_back_before_a_refusal(container: Container, program: Interpreter) -> None:
    pool = program.call("cuDeviceGetDefaultMemPool", OUT, 0)[1]
    program.call("cuMemPoolSetAttribute", pool, 4, hexadecimal("Q", 1 << 40))
    program.call("cuMemFreeAsync", program.call("cuMemAllocAsync", OUT, HALF, 0)[1], 0)
    assert program.allocate(QUOTA)[0] == OK
    assert container.charged == container.device.used == QUOTA


def test_freed_memory_of_a_pool_counts_until_the_driver_has_it(
    container: Container, program: Interpreter
) -> None:
    pointer = program.call("cuMemAllocAsync", OUT, HALF, 0)[1]
    assert program.call("cuMemFreeAsync", pointer, 0) == [OK]
    assert container.charged == container.device.used == HALF
    assert program.call("cuStreamSynchronize", 0) == [OK]
    assert container.charged == container.device.used == 0


def test_a_pool_grows_in_larger_units_than_it_is_asked_for(
    container: Container, program: Interpreter
) -> None:
    assert program.allocate(QUOTA - MIB)[0] == OK
    assert program.call("cuMemAllocAsync", OUT, 1, 0)[0] == OUT_OF_MEMORY
    assert container.charged == container.device.used == QUOTA - MIB


def test_a_pool_of_its_own_counts_on_its_device(container: Container, program: Interpreter) -> None:
    pool = pool_on(program, 1)[1]
    pointer = program.call("cuMemAllocFromPoolAsync", OUT, HALF, pool, 0)[1]
    assert container.account.used(container.devices[1].uuid) == container.devices[1].used == HALF
    assert program.call("cuMemPoolDestroy", pool) == [OK]
    assert container.account.used(container.devices[1].uuid) == HALF
    assert program.call("cuMemFreeAsync", pointer, 0) == [OK]
    assert container.account.used(container.devices[1].uuid) == container.devices[1].used == 0


def pool_on(program: Interpreter, device: int, kind: int = 1, location: int = 1) -> tuple[int, int]:
    properties = hexadecimal("iiii", kind, 0, location, device) + "00" * 72
    result, pool, _ = program.call("cuMemPoolCreate", OUT, properties)
    return result, pool


def test_each_of_300_pools_counts(container: Container, program: Interpreter) -> None:
    pools = [pool_on(program, 0) for _ in range(300)]
    assert {result for result, _ in pools} == {OK}
    for _, pool in (pools[0], pools[255], pools[256], pools[299]):
        assert program.call("cuMemAllocFromPoolAsync", OUT, QUOTA + 1, pool, 0)[0] == OUT_OF_MEMORY
    assert program.call("cuMemAllocFromPoolAsync", OUT, HALF, pools[299][1], 0)[0] == OK
    assert container.charged == container.device.used == HALF


def test_a_pool_that_cannot_be_counted_is_refused(container: Container, program: Interpreter) -> None:
    pools = []
    while len(pools) < 2000 and (made := pool_on(program, 0))[0] == OK:
        pools.append(made[1])
    assert len(pools) == 1024
    # The default pool and the graphs' memory have no place in the table either.
    assert program.call("cuMemAllocAsync", OUT, 1, 0)[0] == OUT_OF_MEMORY
    assert program.call("cuGraphInstantiateWithFlags", OUT, graph_of(program, 1), 0)[0] == OUT_OF_MEMORY
    assert container.device.used == 0
    assert program.call("cuMemPoolDestroy", pools[0]) == [OK]
    assert program.call("cuMemAllocAsync", OUT, HALF, 0)[0] == OK
    assert container.charged == container.device.used == HALF


def test_a_pool_of_host_memory_does_not_count(container: Container, program: Interpreter) -> None:
    result, pool = pool_on(program, 0, location=2)
    assert result == OK
    assert program.call("cuMemAllocFromPoolAsync", OUT, 2 * QUOTA, pool, 0)[0] == OK
    assert container.charged == container.device.used == 0


MANAGED = 2


@pytest.mark.parametrize("location", [0, 1, 2, 3])
def test_a_pool_of_managed_memory_counts_wherever_it_prefers_to_be(
    container: Container, program: Interpreter, location: int
) -> None:
    result, pool = pool_on(program, 0, MANAGED, location)
    assert result == OK
    assert program.call("cuMemAllocFromPoolAsync", OUT, QUOTA + 1, pool, 0)[0] == OUT_OF_MEMORY
    assert program.call("cuMemAllocFromPoolAsync", OUT, HALF, pool, 0)[0] == OK
    assert container.charged == container.device.used == HALF


@pytest.mark.parametrize("get", ["cuMemGetDefaultMemPool", "cuMemGetMemPool"])
@pytest.mark.parametrize(
    ("kind", "location", "counted"), [(1, 1, HALF), (MANAGED, 0, HALF), (MANAGED, 2, HALF), (1, 2, 0)]
)
def test_a_locations_pool_counts_on_the_device(
    container: Container, program: Interpreter, get: str, kind: int, location: int, counted: int
) -> None:
    pool = program.call(get, OUT, hexadecimal("ii", location, 0), kind)[1]
    assert program.call("cuMemAllocFromPoolAsync", OUT, HALF, pool, 0)[0] == OK
    assert container.charged == container.device.used == counted


def test_a_captured_allocation_of_managed_memory_counts(container: Container, program: Interpreter) -> None:
    pool = program.call("cuMemGetDefaultMemPool", OUT, hexadecimal("ii", 0, 0), MANAGED)[1]
    stream = program.call("cuStreamCreate", OUT, 0)[1]
    assert program.call("cuStreamBeginCapture_v2", stream, 0) == [OK]
    assert program.call("cuMemAllocFromPoolAsync", OUT, 2 * QUOTA, pool, stream)[0] == OK
    graph = program.call("cuStreamEndCapture", stream, OUT)[1]
    assert program.call("cuGraphInstantiateWithFlags", OUT, graph, 0)[0] == OUT_OF_MEMORY


def test_child_graphs_too_deep_to_be_counted_are_refused(container: Container, program: Interpreter) -> None:
    graph = graph_of(program, 1)
    for _ in range(20):
        outer = program.call("cuGraphCreate", OUT, 0)[1]
        assert program.call("cuGraphAddChildGraphNode", OUT, outer, 0, 0, graph)[0] == OK
        graph = outer
    assert program.call("cuGraphInstantiateWithFlags", OUT, graph, 0)[0] == OUT_OF_MEMORY


def test_mapped_and_retained_handles_keep_their_memory(container: Container, program: Interpreter) -> None:
    handle = created(program, HALF)[1]
    address = program.call("cuMemAddressReserve", OUT, HALF, 0, 0, 0)[1]
    assert program.call("cuMemMap", address, HALF, 0, handle, 0) == [OK]
    assert program.call("cuMemRelease", handle) == [OK]
    assert container.charged == container.device.used == HALF
    assert program.call("cuMemRetainAllocationHandle", OUT, address) == [OK, handle]
    assert program.call("cuMemUnmap", address, HALF) == [OK]
    assert container.charged == container.device.used == HALF
    assert program.call("cuMemRelease", handle) == [OK]
    assert container.charged == container.device.used == 0


def test_a_graph_counts_with_its_nodes_from_its_instantiation(
    container: Container, program: Interpreter
) -> None:
    inner = graph_of(program, HALF, freed=True)
    outer = graph_of(program, 10 * MIB, freed=True)
    assert program.call("cuGraphAddChildGraphNode", OUT, outer, 0, 0, inner)[0] == OK
    result, executable = program.call("cuGraphInstantiateWithFlags", OUT, outer, 0)
    assert result == OK
    assert container.charged == HALF + 10 * MIB
    assert program.call("cuGraphInstantiateWithFlags", OUT, outer, 0)[0] == OUT_OF_MEMORY
    for _ in range(3):
        assert program.call("cuGraphLaunch", executable, 0) == [OK]
    assert container.charged == container.device.used == HALF + 10 * MIB
    assert program.call("cuGraphExecDestroy", executable) == [OK]
    # The driver keeps the memory for the next graph until it is trimmed.
    assert container.charged == container.device.used == HALF + 10 * MIB
    assert program.call("cuDeviceGraphMemTrim", 0) == [OK]
    assert container.charged == container.device.used == 0


def test_a_captured_allocation_counts_as_a_node(container: Container, program: Interpreter) -> None:
    stream = program.call("cuStreamCreate", OUT, 0)[1]
    assert program.call("cuStreamBeginCapture_v2", stream, 0) == [OK]
    assert program.call("cuMemAllocAsync", OUT, 2 * QUOTA, stream)[0] == OK
    graph = program.call("cuStreamEndCapture", stream, OUT)[1]
    assert container.charged == container.device.used == 0
    assert program.call("cuGraphInstantiateWithFlags", OUT, graph, 0)[0] == OUT_OF_MEMORY


LIMITS = {"stack": (0, 1024, 4 * 2048), "printf": (1, MIB, 1), "heap": (2, 8 * MIB, 1)}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_counts_with_what_it_adds_to_the_default(
    container: Container, program: Interpreter, name: str
) -> None:
    limit, default, times = LIMITS[name]
    assert program.call("cuCtxSetLimit", limit, default) == [OK]
    assert container.charged == container.device.used == 0
    assert program.call("cuCtxSetLimit", limit, default + QUOTA // times + 1) == [OUT_OF_MEMORY]
    assert program.call("cuCtxSetLimit", limit, default + HALF // times) == [OK]
    assert program.call("cuCtxSetLimit", limit, default + QUOTA // times) == [OK]
    assert container.charged == container.device.used == QUOTA // times * times
    assert program.call("cuCtxSetLimit", limit, default + HALF // times) == [OK]
    assert container.charged == container.device.used == HALF // times * times
    assert program.call("cuDevicePrimaryCtxReset_v2", 0) == [OK]
    assert container.charged == container.device.used == 0


def test_a_limit_that_the_driver_refuses_stays_as_it_was(container: Container, program: Interpreter) -> None:
    assert program.call("cuCtxSetLimit", 2, HALF) == [OK]
    container.account.quotas[container.device.uuid] = 1 << 50
    assert program.call("cuCtxSetLimit", 2, 2 << 30) == [OUT_OF_MEMORY]
    assert container.charged == container.device.used == HALF - 8 * MIB


def test_a_modules_variables_are_the_watchdogs(container: Container, program: Interpreter) -> None:
    assert program.call("cuModuleLoadData", OUT, hexadecimal("Q", 2 * QUOTA))[0] == OK
    assert (container.charged, container.device.used) == (0, 2 * QUOTA)


def test_a_capture_frees_only_its_own_memory(container: Container, program: Interpreter) -> None:
    outside = program.call("cuMemAllocAsync", OUT, HALF, 0)[1]
    stream = program.call("cuStreamCreate", OUT, 0)[1]
    assert program.call("cuStreamBeginCapture_v2", stream, 0) == [OK]
    inside = program.call("cuMemAllocAsync", OUT, HALF, stream)[1]
    assert program.call("cuMemFreeAsync", inside, stream) == [OK]
    assert program.call("cuMemFreeAsync", outside, stream)[0] != OK
    assert container.charged == container.device.used == HALF


def test_the_end_of_a_context_gives_its_memory_back(container: Container, program: Interpreter) -> None:
    context = program.call("cuCtxCreate_v2", OUT, 0, 1)[1]
    assert program.allocate(HALF)[0] == OK
    assert container.account.used(container.devices[1].uuid) == HALF
    assert program.call("cuCtxDestroy_v2", context) == [OK]
    assert container.account.used(container.devices[1].uuid) == 0
    assert program.allocate(HALF)[0] == OK
    assert container.charged == HALF
    assert program.call("cuDevicePrimaryCtxReset_v2", 0) == [OK]
    assert container.charged == container.device.used == 0


def test_the_last_release_of_the_primary_context_gives_its_memory_back(
    container: Container, program: Interpreter
) -> None:
    assert program.call("cuDevicePrimaryCtxRetain", OUT, 0)[0] == OK
    assert program.allocate(HALF)[0] == OK
    assert program.call("cuDevicePrimaryCtxRelease_v2", 0) == [OK]
    assert container.charged == HALF
    assert program.call("cuDevicePrimaryCtxRelease_v2", 0) == [OK]
    assert container.charged == container.device.used == 0


@pytest.mark.parametrize("last", ["cuGreenCtxDestroy", "cuDevicePrimaryCtxRelease_v2"])
def test_memory_of_a_green_context_ends_with_its_primary_context(
    container: Container, program: Interpreter, last: str
) -> None:
    green = program.call("cuGreenCtxCreate", OUT, 0, 0, 1)[1]
    ends = {"cuGreenCtxDestroy": green, "cuDevicePrimaryCtxRelease_v2": 0}
    context = program.call("cuCtxFromGreenCtx", OUT, green)[1]
    assert program.call("cuCtxSetCurrent", context) == [OK]
    assert program.allocate(HALF)[0] == OK
    (first,) = ends.keys() - {last}
    assert program.call(first, ends[first]) == [OK]
    assert container.charged == container.device.used == HALF
    assert program.call(last, ends[last]) == [OK]
    assert container.charged == container.device.used == 0


def test_a_stream_of_another_device_counts_there(container: Container, program: Interpreter) -> None:
    context = program.call("cuCtxCreate_v2", OUT, 0, 1)[1]
    stream = program.call("cuStreamCreate", OUT, 0)[1]
    assert program.call("cuCtxPopCurrent_v2", OUT) == [OK, context]
    assert program.call("cuMemAllocAsync", OUT, HALF, stream)[0] == OK
    assert (container.charged, container.account.used(container.devices[1].uuid)) == (0, HALF)


def test_a_device_without_a_share_has_no_memory(container: Container, program: Interpreter) -> None:
    del container.account.quotas[container.devices[1].uuid]
    program.call("cuCtxCreate_v2", OUT, 0, 1)
    assert program.allocate(1)[0] == OUT_OF_MEMORY
    assert container.devices[1].used == 0
