"""Violations of a container's limits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from laneway.api.container_record import ContainerRecord
from laneway.node_agent.enforcement.violation import CheckResult, Claim, Violation, check_claim, violation_of

MIB = 1 << 20


def claim(quota_mib: int = 100, uncovered: str = "", overdue_release: str = "") -> Claim:
    record = ContainerRecord(
        key="0" * 16,
        namespace="default",
        pod="a",
        container="trainer",
        device_ids=("GPU-1::0",),
        shares={"GPU-1": 1},
    )
    return Claim(
        "GPU-1",
        record,
        Path("/c"),
        quota_mib * MIB,
        uncovered=uncovered,
        overdue_release=overdue_release,
    )


def test_the_quota_applies_to_all_processes_together() -> None:
    assert violation_of(claim(), {1: 60 * MIB, 2: 45 * MIB}, tolerance_percent=5) is None
    found = violation_of(claim(), {1: 60 * MIB, 2: 46 * MIB}, tolerance_percent=5)
    assert found == Violation(
        "MemoryQuotaExceeded",
        "its 2 processes hold 106.0 MiB of GPU memory as the driver reports, more than its quota of 100.0 MiB",
    )


@given(st.integers(1, 1000), st.integers(0, 100), st.lists(st.integers(0, 500)))
def test_within_quota_and_tolerance_there_is_no_violation(
    quota: int, tolerance: int, parts: list[int]
) -> None:
    held = {pid: part * MIB for pid, part in enumerate(parts)}
    found = violation_of(claim(quota), held, tolerance)
    assert (found is not None) == (100 * sum(parts) > quota * (100 + tolerance))


def test_uncovered_growth_is_a_violation_even_without_a_reading() -> None:
    uncovered = Violation("MemoryNotCovered", "gets no turns")
    assert check_claim(claim(uncovered="gets no turns"), None, 5, None) == CheckResult(
        uncovered, conclusive=True
    )
    assert check_claim(claim(), None, 5, uncovered) == CheckResult(None, conclusive=True)


def test_an_overdue_release_is_a_violation_even_without_a_reading() -> None:
    overdue = Violation("TurnNotReleased", "does not release its memory")
    late = claim(overdue_release="does not release its memory")
    assert check_claim(late, None, 5, None) == CheckResult(overdue, conclusive=True)
    assert check_claim(late, {}, 5, None) == CheckResult(overdue, conclusive=True)
    assert check_claim(claim(), None, 5, overdue) == CheckResult(None, conclusive=True)


def test_memory_without_the_interposer_is_a_violation_where_the_pod_demands_it() -> None:
    held = {1: 60 * MIB, 2: 30 * MIB}
    free = claim()
    bound = replace(
        free,
        record=free.record.model_copy(update={"minimum_enforcement": "Interposer"}),
        uninterposed_bytes=30 * MIB,
    )
    assert violation_of(free, held, 5) is None
    found = violation_of(bound, held, 5)
    assert found is not None
    assert found.reason == "InterposerNotLoaded"
    without = "a process holds 60.0 MiB of GPU memory without the memory interposer, and the pod demands the enforcement 'Interposer'"
    assert (
        found.text == f"{without}: run no static and no musl program, and leave /etc/ld.so.preload as it is"
    )
    simulated = violation_of(replace(bound, simulated=True), held, 5)
    assert simulated is not None
    assert simulated.text == (
        f"{without}: this GPU is simulated, where the memory of PyTorch does not pass the interposer, so demand 'Watchdog' at most"
    )
    assert violation_of(replace(bound, interposed_pids=frozenset({1})), held, 5) is None
    over = violation_of(bound, {1: 200 * MIB}, 5)
    assert over is not None
    assert over.reason == "MemoryQuotaExceeded"


def test_without_a_new_reading_the_last_result_stands() -> None:
    over = Violation("MemoryQuotaExceeded", "it holds too much")
    assert check_claim(claim(), None, 5, over) == CheckResult(over, conclusive=False)
    assert check_claim(claim(), {}, 5, over) == CheckResult(None, conclusive=True)


def test_computing_without_a_turn_is_the_least_of_all_violations() -> None:
    without_turn = replace(claim(), without_turn="computes without a turn")
    assert violation_of(without_turn, {}, 5) == Violation("ComputesWithoutTurn", "computes without a turn")
    for other in (replace(without_turn, uncovered="no turns"), replace(without_turn, quota_bytes=0)):
        found = violation_of(other, {1: MIB}, 5)
        assert found is not None
        assert found.reason != "ComputesWithoutTurn"
