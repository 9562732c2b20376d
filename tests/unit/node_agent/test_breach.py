"""What is held against a container."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from laneway.api.container_record import ContainerRecord
from laneway.node_agent.enforcement.breach import Breach, Claim, Finding, breach_of, find

MIB = 1 << 20


def claim(quota_mib: int = 100, uncovered: str = "") -> Claim:
    record = ContainerRecord(
        key="0" * 16,
        namespace="default",
        pod="a",
        container="trainer",
        device_ids=("GPU-1::0",),
        shares={"GPU-1": 1},
    )
    return Claim("GPU-1", record, Path("/c"), quota_mib * MIB, uncovered=uncovered)


def test_all_processes_together_are_held_to_the_quota() -> None:
    assert breach_of(claim(), {1: 60 * MIB, 2: 45 * MIB}, tolerance_percent=5) is None
    found = breach_of(claim(), {1: 60 * MIB, 2: 46 * MIB}, tolerance_percent=5)
    assert found == Breach(
        "MemoryQuotaExceeded",
        "its 2 processes hold 106.0 MiB of the GPU by the device's own account, more than its quota of 100.0 MiB",
    )


@given(st.integers(1, 1000), st.integers(0, 100), st.lists(st.integers(0, 500)))
def test_within_the_quota_and_the_tolerance_nothing_is_held_against_anybody(
    quota: int, tolerance: int, parts: list[int]
) -> None:
    held = {pid: part * MIB for pid, part in enumerate(parts)}
    found = breach_of(claim(quota), held, tolerance)
    assert (found is not None) == (100 * sum(parts) > quota * (100 + tolerance))


def test_growth_that_memory_does_not_cover_is_held_against_it_without_a_reading_too() -> None:
    uncovered = Breach("MemoryNotCovered", "gets no turns")
    assert find(claim(uncovered="gets no turns"), None, 5, None) == Finding(uncovered, told=True)
    assert find(claim(), None, 5, uncovered) == Finding(None, told=True)


def test_while_there_is_no_new_reading_the_last_word_stands_and_nothing_is_told() -> None:
    over = Breach("MemoryQuotaExceeded", "it holds too much")
    assert find(claim(), None, 5, over) == Finding(over, told=False)
    assert find(claim(), {}, 5, over) == Finding(None, told=True)
