"""The benchmarks' own trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from laneway.simulator.traces import read_trace

from tests.performance.synthetic_trace import synthetic_trace, write_tiresias_csv


def test_the_seed_decides() -> None:
    assert synthetic_trace(200, 1) == synthetic_trace(200, 1)
    assert synthetic_trace(200, 1) != synthetic_trace(200, 2)


@pytest.mark.parametrize("load_ratio", [0.5, 1.47])
def test_it_asks_for_the_load_that_it_is_told(load_ratio: float) -> None:
    trace = synthetic_trace(500, 3, gpus=64, load_ratio=load_ratio)
    work = sum(job.duration_seconds * job.demand.gpus for job in trace)
    assert work / (64 * trace[-1].submit_seconds) == pytest.approx(load_ratio, rel=1e-3)


def test_it_comes_back_from_the_form_of_the_reference(tmp_path: Path) -> None:
    trace = synthetic_trace(50, 5)
    write_tiresias_csv(trace, tmp_path / "trace.csv")
    read = read_trace(tmp_path / "trace.csv")
    assert [(job.key, job.demand.gpus, job.submit_seconds, job.duration_seconds) for job in read] == [
        (job.key, job.demand.gpus, job.submit_seconds, job.duration_seconds)
        for job in sorted(trace, key=lambda job: (job.submit_seconds, job.key))
    ]


def test_a_cluster_too_small_for_its_largest_job_is_refused() -> None:
    with pytest.raises(ValueError, match="the largest job wants 32"):
        synthetic_trace(10, gpus=16)
