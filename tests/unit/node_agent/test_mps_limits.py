"""What the MPS control daemon shall limit its clients to."""

from __future__ import annotations

from laneway.node_agent.enforcement.mps_limits import WantedLimits, wanted_limits

from tests.support.node_agent.gpu_bench import GPU, MIB, GPUBench


def test_the_largest_quota_of_a_gpu_is_the_limit_of_its_clients() -> None:
    bench = GPUBench()
    bench.container("small", 20)
    large = bench.container("large", 45)
    assert wanted_limits({GPU: bench.turns}, True) == WantedLimits({GPU: 450 * MIB}, 45)
    assert wanted_limits({GPU: bench.turns}, False) == WantedLimits({GPU: 450 * MIB}, 100)
    bench.turns.remove_container(large.key)
    assert wanted_limits({GPU: bench.turns}, True) == WantedLimits({GPU: 200 * MIB}, 20)


def test_a_limit_is_in_whole_mebibytes_and_never_above_the_quota() -> None:
    bench = GPUBench(memory_mib=1001)
    lease = bench.container("uneven", 33)
    limit = wanted_limits({GPU: bench.turns}, True).memory_bytes[GPU]
    assert limit == 330 * MIB <= lease.quota_bytes < 331 * MIB


def test_a_gpu_without_containers_has_the_limit_of_the_smallest_share() -> None:
    bench = GPUBench()
    assert wanted_limits({GPU: bench.turns}, True) == WantedLimits({GPU: 10 * MIB}, 1)
