"""The reference of Synergy's simulator, on workloads small enough to be worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import pytest

from tests.performance import synergy_rounds
from tests.performance.synergy_rounds import SHARE, Line, best_need, workload


def alexnets(jobs: int, submit_seconds: int = 0) -> list[Line]:
    """Jobs of 1,000 iterations of 0.6 s with a proportional share, and 2.94 times as fast with their best demand, 12 CPUs."""
    return [Line(number, "alexnet", submit_seconds, 1000) for number in range(jobs)]


def completion_seconds(lines: Sequence[Line], **parameters: Any) -> Mapping[int, float]:
    return synergy_rounds.completion_seconds(lines, [line.number for line in lines], **parameters)


def test_the_workload_is_the_same_each_time_and_keeps_to_the_parts_of_the_tasks() -> None:
    lines = list(workload(1000))
    assert lines[:50] == list(islice(workload(1000), 50))
    assert [line.model for line in lines[:3]] == ["alexnet", "gnmt", "transformer"]
    language = sum(line.model in ("gnmt", "transformer", "lstm") for line in lines)
    assert language / len(lines) == pytest.approx(0.7, abs=0.01)
    hours = lines[-1].submit_seconds / 3600
    assert len(lines) / hours == pytest.approx(9, rel=0.1)


def test_a_job_starts_and_ends_with_a_round() -> None:
    assert completion_seconds(alexnets(1), tune=False) == {0: 600}
    assert completion_seconds(alexnets(1, submit_seconds=100), tune=False) == {0: 800}
    assert completion_seconds(alexnets(1, submit_seconds=300), tune=False) == {0: 600}


def test_what_is_left_of_a_round_after_its_last_whole_iteration_is_lost() -> None:
    job = [Line(0, "res50", 0, 385)]  # 384 iterations of 0.78 s fit into a round, and 0.6 of another
    assert completion_seconds(job, tune=False) == {0: 600}
    assert completion_seconds(job, tune=False, round_seconds=3000, whole_iterations=False) == {0: 3000}


def test_a_job_beyond_the_gpus_waits() -> None:
    found = completion_seconds(alexnets(129), tune=False)
    assert found[127] == 600
    assert found[128] == 1200


def test_best_demands_where_they_fit() -> None:
    assert best_need("alexnet").cpu_millis == 12_000
    assert best_need("alexnet").speed_ratio == pytest.approx(2.94)
    assert best_need("deepspeech") == SHARE
    assert set(completion_seconds(alexnets(32), tune=True).values()) == {300}


def test_jobs_are_reduced_to_their_shares_where_another_would_not_fit() -> None:
    """Two on each of 16 servers leave no CPU; the next needs 3, so one of the two on the first server has to give CPUs."""
    found = completion_seconds(alexnets(33), tune=True)
    assert sorted(found.values()) == [300] * 31 + [600] * 2
    crowd = completion_seconds(alexnets(128), tune=True)
    assert crowd == completion_seconds(alexnets(128), tune=False)


def test_a_job_that_keeps_its_server_does_not_move_to_free_cpus() -> None:
    """Three share the first server's CPUs; when a job on the last server ends, one of them would find enough there."""
    lines = [Line(number, "alexnet", 0, 100 if number == 30 else 10_000) for number in range(33)]
    moving = completion_seconds(lines, tune=True)
    staying = completion_seconds(lines, tune=True, keeps_servers=True)
    assert max(moving.values()) < max(staying.values())
