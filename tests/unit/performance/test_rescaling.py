"""The figures of the benchmark of elastic jobs, its jobs, and its tables."""

from __future__ import annotations

import pytest
from laneway.operator.state.records.job_record import parse_job

from tests.performance.rescaling.figures import JobRun, Rescale, phase_figures
from tests.performance.rescaling.tables import ELASTIC
from tests.performance.rescaling.workload import GANGS, MOST_WORKERS, jobs_of

GROWN, PAUSED, SHRUNK = Rescale(1, 1, 2, 8.0), Rescale(2, 2, 0, None), Rescale(3, 2, 1, 4.0)
RUNS = [
    JobRun("gang", True, 100.0, 200.0, [GROWN, PAUSED, SHRUNK], [1, 2, 1], 0, 0.95),
    JobRun("other", True, 105.0, 165.0, accuracy=0.97, world_sizes=[2], repeated_steps=3),
    JobRun("short", False, 110.0, 130.0),
]


def test_a_phase_is_summed_up() -> None:
    found = phase_figures(RUNS)
    assert found["makespan_seconds"] == 100
    assert found["average_jct_seconds"] == pytest.approx(60)
    assert (found["gangs_average_jct_seconds"], found["short_average_jct_seconds"]) == (80, 20)
    assert (found["rescales"], found["mean_rescale_cost_seconds"]) == (3, 6.0)
    assert (found["repeated_steps"], found["least_accuracy"]) == (3, 0.95)


def test_without_rescales_there_is_no_cost() -> None:
    assert phase_figures(RUNS[1:])["mean_rescale_cost_seconds"] is None


@pytest.mark.parametrize("elastic", [False, True])
def test_the_jobs_are_taken_and_only_gangs_are_elastic(elastic: bool) -> None:
    jobs = jobs_of("p", elastic=elastic)
    assert [job.submit_seconds for job in jobs] == sorted(job.submit_seconds for job in jobs)
    for job in jobs:
        raw = job.manifest("ns")
        raw["metadata"] |= {
            "uid": job.name,
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }
        record = parse_job(raw)
        assert record.desired is not None
        assert record.desired.spec.elastic == (elastic and job.gang)
    ranges = [job.manifest("ns")["spec"].get("maxWorkers") for job in jobs if job.gang]
    assert ranges == [MOST_WORKERS if elastic else None] * GANGS


def test_the_page_shows_each_mode_and_each_rescale() -> None:
    (_, show) = ELASTIC.sections["elastic-cluster"]
    phase = {"mode": "pollux", "cores_busy": 1.5} | phase_figures(RUNS)
    text = "".join(show({"phases": [phase]}))
    assert "| pollux | 60.0 s | 80.0 s | 20.0 s | 100.0 s | 3 | 6.0 s | 3 | 0.950 |" in text
    assert (
        "| pollux | gang | 100.0 s | 1, 2, 1 | 1 to 2: 8.0 s, 2 to 0: not measured, 2 to 1: 4.0 s |" in text
    )
    assert "other" not in text
