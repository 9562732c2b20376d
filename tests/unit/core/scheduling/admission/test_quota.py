"""Quotas of GPUs by namespace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from laneway.scheduling import Plan, WaitingCode, policies
from laneway.scheduling.admission.quota import Quota

from tests.unit.core.scheduling.builders import JobBuilder, a_job, a_node, planned


def planned_with(
    *jobs: JobBuilder, gpus: int = 8, lanes: bool = False, **options: Mapping[str, float] | float
) -> Plan:
    joining: dict[str, float] | None = {} if lanes else None
    chosen = policies(
        order="fifo", admission=("quota",), admission_options={"quota": options}, joining=joining
    )
    node = a_node("n", gpus, percent=800 if lanes else 100)
    if lanes:
        node = replace(node, gpus=tuple(replace(gpu, active_percent=400) for gpu in node.gpus))
    return planned([node], *jobs, by=chosen)


def test_a_namespace_holds_no_more_than_its_limit() -> None:
    jobs = [a_job(f"a/{number}") for number in range(4)]
    decided = planned_with(*jobs, a_job("b/0"), limit_gpus={"a": 2})
    assert set(decided.starts) == {"a/0", "a/1", "b/0"}
    reason = decided.waiting["a/2"]
    assert reason.code is WaitingCode.NOT_ADMITTED
    assert reason.message == "It needs 1 GPU; namespace a holds 2 and may hold 2 at most."
    assert reason.unblock == "It is admitted when 1 more GPU is left to its namespace."
    assert reason.lacking_gpus == 1


def test_what_runs_already_and_parts_of_gpus_count() -> None:
    runs = a_job("a/runs").share(50).runs_on("n/0")
    decided = planned_with(runs, a_job("a/half").share(50), a_job("a/more").share(1), limit_gpus={"a": 1})
    assert set(decided.starts) == {"a/half"}


def test_idle_quotas_are_borrowed() -> None:
    jobs = [a_job(f"a/{number}") for number in range(8)]
    assert len(planned_with(*jobs, quota_gpus={"a": 4, "b": 4}).starts) == 8


def test_what_is_kept_back_is_not() -> None:
    jobs = [a_job(f"a/{number}") for number in range(8)]
    decided = planned_with(*jobs, quota_gpus={"a": 4, "b": 4}, lending_ratio=0.5)
    assert len(decided.starts) == 6
    assert decided.waiting["a/6"].message == (
        "It needs 1 GPU; namespace a holds 6 and has a quota of 4; of the 2 that are free, others keep 2."
    )
    assert decided.waiting["a/6"].lacking_gpus == 1
    assert len(planned_with(*jobs, quota_gpus={"a": 4, "b": 4}, lending_ratio=0.0).starts) == 4


@pytest.mark.parametrize("lanes", [False, True])
def test_what_is_kept_back_are_gpus_that_no_job_has_whether_or_not_jobs_share(lanes: bool) -> None:
    jobs = [a_job(f"a/{number}") for number in range(8)]
    decided = planned_with(*jobs, lanes=lanes, quota_gpus={"a": 4, "b": 4}, lending_ratio=0.0)
    assert len(decided.starts) == 4


@pytest.mark.parametrize("lanes", [False, True])
def test_a_gpu_for_exclusive_use_counts_as_one(lanes: bool) -> None:
    jobs = [a_job(f"a/{number}").needs(exclusive=True) for number in range(6)]
    assert len(planned_with(*jobs, lanes=lanes, limit_gpus={"a": 4}).starts) == 4


def test_who_has_taken_its_quota_keeps_nothing_back() -> None:
    held = [a_job(f"b/{number}").runs_on(f"n/{number}") for number in range(4)]
    jobs = [a_job(f"c/{number}") for number in range(8)]
    assert len(planned_with(*held, *jobs, quota_gpus={"b": 4}, lending_ratio=0.0).starts) == 4


def test_what_a_namespace_has_taken_of_its_quota_is_not_kept_back_again() -> None:
    held = a_job("b/0").needs(2).runs_on("n/0", "n/1")
    jobs = [a_job(f"c/{number}") for number in range(8)]
    assert len(planned_with(held, *jobs, quota_gpus={"b": 4}, lending_ratio=0.0).starts) == 4


def test_a_namespace_without_a_quota_borrows_everything() -> None:
    decided = planned_with(a_job("c/0"), gpus=1, quota_gpus={"b": 1}, lending_ratio=0.0)
    assert decided.waiting["c/0"].code is WaitingCode.NOT_ADMITTED


def test_a_job_within_its_quota_is_admitted_whatever_others_keep() -> None:
    borrower = a_job("c/0").needs(4).runs_on("n/0", "n/1", "n/2", "n/3")
    jobs = [a_job(f"a/{number}") for number in range(5)]
    decided = planned_with(borrower, *jobs, quota_gpus={"a": 4, "b": 4}, lending_ratio=0.0)
    assert set(decided.starts) == {"a/0", "a/1", "a/2", "a/3"}
    assert decided.waiting["a/4"].code is WaitingCode.NOT_ADMITTED


def test_a_namespace_does_not_keep_its_quota_back_from_itself() -> None:
    gang = a_job("a/0").needs(3)
    assert planned_with(gang, gpus=4, quota_gpus={"a": 2, "b": 1}, lending_ratio=0.0).starts
    assert not planned_with(gang, gpus=4, quota_gpus={"a": 2, "b": 2}, lending_ratio=0.0).starts


def test_where_others_keep_nothing_a_job_may_compete_for_busy_gpus() -> None:
    runs = a_job("b/0").runs_on("n/0")
    decided = planned_with(runs, a_job("c/0"), gpus=1, quota_gpus={"b": 1}, lending_ratio=0.0)
    assert decided.waiting["c/0"].code is WaitingCode.GPUS_BUSY


def test_one_gpu_that_is_kept_back_is_not_borrowed() -> None:
    decided = planned_with(a_job("c/0"), a_job("c/1"), gpus=2, quota_gpus={"b": 1}, lending_ratio=0.0)
    assert set(decided.starts) == {"c/0"}


def test_a_refused_job_lets_others_of_its_shape_pass() -> None:
    decided = planned_with(
        a_job("a/0").created(1), a_job("a/1").created(2), a_job("b/0").created(3), limit_gpus={"a": 1}
    )
    assert set(decided.starts) == {"a/0", "b/0"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"quota_gpus": {"a": -1.0}}, "quota_gpus of namespace a is -1"),
        ({"quota_gpus": {"a": 4.0}, "limit_gpus": {"a": 2.0}}, "less than its quota of 4"),
        ({"lending_ratio": 2.0}, "lending_ratio is 2"),
    ],
)
def test_wrong_parameters_are_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Quota(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {"quota_gpus": {"a": 0.0}, "limit_gpus": {"a": 0.0}},
        {"quota_gpus": {"a": 0.5}, "limit_gpus": {"a": 0.5}},
        {"limit_gpus": {"a": 0.5}},
        {"lending_ratio": 0.0},
        {"lending_ratio": 1.0},
    ],
)
def test_bounds_of_parameters_are_allowed(options: dict[str, object]) -> None:
    Quota(**options)  # type: ignore[arg-type]


def test_a_job_waits_for_its_own_reason_behind_an_equal_one_of_another_namespace() -> None:
    limited = policies(
        order="multilevel-las",
        admission=("quota",),
        admission_options={"quota": {"limit_gpus": {"a": 2}}},
    )
    held = a_job("a/runs").needs(2).runs_on("n/0", "n/1")
    decided = planned([a_node("n", 2)], held, a_job("b/0").created(1), a_job("a/0").created(2), by=limited)
    assert decided.waiting["b/0"].code is not WaitingCode.NOT_ADMITTED
    assert decided.waiting["a/0"].code is WaitingCode.NOT_ADMITTED
