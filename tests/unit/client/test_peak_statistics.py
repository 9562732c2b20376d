"""The script and the client each see the allocator's peaks since their own last reset."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.client.memory.peak_statistics import PeakStatistics

MIB = 1 << 20


class Allocator:
    """What is allocated on a device, and the highest since the last reset."""

    def __init__(self) -> None:
        self.current = self.peak = 0

    def use(self, peak_bytes: int) -> None:
        self.peak = max(self.peak, peak_bytes)

    def stats(self, device: int) -> dict[str, Any]:
        pools = {"all": {"current": self.current, "peak": self.peak, "freed": 5}}
        return {"allocated_bytes": pools, "oversize_allocations": {"peak": self.peak}, "num_ooms": 0}

    def reset(self, device: int) -> None:
        self.peak = self.current


class Script:
    """A script's view of the allocator, and the client's beside it."""

    def __init__(self) -> None:
        self.allocator = Allocator()
        self.torch = SimpleNamespace(
            _cuda_memoryStats=self.allocator.stats, _cuda_resetPeakMemoryStats=self.allocator.reset
        )
        self.client = PeakStatistics(self.torch)

    @property
    def peak(self) -> int:
        return int(self.torch._cuda_memoryStats(0)["allocated_bytes"]["all"]["peak"])

    def reset(self) -> None:
        self.torch._cuda_resetPeakMemoryStats(0)


@pytest.fixture
def script() -> Script:
    return Script()


def test_measuring_an_iteration_leaves_the_scripts_peak(script: Script) -> None:
    script.allocator.use(70 * MIB)
    assert script.client.restart(0) == (0, 70 * MIB)
    script.allocator.use(20 * MIB)
    assert script.client.restart(0) == (0, 20 * MIB)
    assert script.peak == 70 * MIB
    assert script.torch._cuda_memoryStats(0)["oversize_allocations"]["peak"] == 70 * MIB


def test_a_reset_of_the_script_leaves_the_clients_peak(script: Script) -> None:
    script.client.restart(0)
    script.allocator.use(70 * MIB)
    script.reset()
    assert script.peak == 0
    script.allocator.use(20 * MIB)
    assert script.peak == 20 * MIB
    assert script.client.restart(0) == (0, 70 * MIB)


@given(st.lists(st.one_of(st.integers(1, 100), st.sampled_from(["script", "client"]))))
def test_both_see_the_highest_since_their_own_reset(steps: list[int | str]) -> None:
    script = Script()
    of_script = of_client = 0
    for step in steps:
        if isinstance(step, int):
            script.allocator.use(step)
            of_script, of_client = max(of_script, step), max(of_client, step)
        elif step == "script":
            script.reset()
            of_script = 0
        else:
            assert script.client.restart(0) == (0, of_client)
            of_client = 0
        assert script.peak == of_script
