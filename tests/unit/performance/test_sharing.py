"""The sharing benchmark's figures, its jobs, and its tables."""

from __future__ import annotations

import pytest
from laneway.api import names
from laneway.operator.state.records.job_record import parse_job

from tests.performance.sharing.figures import JobRun, alone_seconds, goals, phase_figures
from tests.performance.sharing.tables import SHARING
from tests.performance.sharing.workload import CROWD, CROWD_GPUS, CROWD_KINDS, KINDS, PAIRS, jobs_of


def run(group: str, number: int, start: float, end: float, gpu: str, kind: str = "gpu-50") -> JobRun:
    """Return a job that trains 100 steps at an even pace."""
    return JobRun(
        name=f"{group}-{number}",
        group=group,
        kind=kind,
        steps=100,
        submit_seconds=0.0,
        placed_seconds=[start - 4],
        start_seconds=start,
        end_seconds=end,
        completed_seconds=end + 1,
        cpu_seconds=(end - start) / 50,
        gpus=[gpu],
        progress=[(start, 0), (end, 100)],
    )


def test_a_pair_is_compared_with_its_jobs_one_after_the_other() -> None:
    alone = alone_seconds([run("50-50", 0, 10, 110, "a"), run("50-50", 1, 120, 220, "a")])
    assert alone == {"gpu-50": 100.0}

    found = phase_figures([run("50-50", 0, 10, 130, "a"), run("50-50", 1, 20, 140, "a")], alone)["50-50"]

    assert found["ratio"] == pytest.approx(130 / 200)
    assert found["steady_ratio"] == pytest.approx(0.6), "both make 100/120 of their speed alone meanwhile"
    assert found["mean_slowdown_percent"] == pytest.approx(20)
    assert found["makespan_seconds"] == 141
    assert found["average_jct_seconds"] == 136


def test_jobs_that_never_train_at_once_have_no_steady_ratio() -> None:
    runs = [run("50-50", 0, 10, 110, "a"), run("50-50", 1, 120, 220, "a")]
    found = phase_figures(runs, alone_seconds(runs))
    assert found["50-50"]["steady_ratio"] is None
    assert [job["beside"] for job in found["jobs"]] == [[], []]


def test_the_page_shows_goals_and_the_jobs_that_shared() -> None:
    alone = {"gpu-50": 100.0}
    off = {"sharing": "off", "cores_busy": 0.5} | phase_figures(
        [
            run(group, number, 10 + 110 * number, 110 + 110 * number, group)
            for group in (CROWD, "50-50")
            for number in (0, 1)
        ],
        alone,
    )
    lanes = {"sharing": "lanes", "cores_busy": 0.6} | phase_figures(
        [run(group, number, 10, 125, group) for group in (CROWD, "50-50") for number in (0, 1)], alone
    )
    result = {"job_seconds": 100, "goals": [goals(lanes, off)], "phases": [off, lanes]}
    _, show = SHARING.sections["sharing"]
    text = "".join(show(result))
    assert "| lanes: two half-idle jobs, of one after the other | 0.57 | at most 0.67, aim 0.55 |" in text
    assert "| lanes: mean slow-down of the crowd | 15 % | at most 20 % |" in text
    assert "| lanes | 50-50-1 | gpu-50 | 6.0 s | 50-50-0 | 15 % |" in text


def test_jobs_of_one_kind_are_of_one_template_and_use_30_to_70_percent() -> None:
    jobs = jobs_of([*PAIRS, CROWD], "r0-off", 90.0, "node-1")
    records = [
        parse_job(
            {
                **manifest,
                "metadata": {
                    **manifest["metadata"],
                    "uid": job.name,
                    "resourceVersion": "1",
                    "creationTimestamp": "2026-11-26T00:00:00Z",
                },
            }
        )
        for job in jobs
        for manifest in [job.manifest("bench")]
    ]
    assert [record.problem for record in records] == [""] * len(jobs)
    hashes = {record.desired.template_hash for record in records if record.desired}
    assert len(hashes) == len(KINDS)
    assert all(30 <= kind.gpu_percent <= 70 for kind in KINDS.values())
    assert len(CROWD_KINDS) >= 1.6 * CROWD_GPUS
    assert all(job.manifest("bench")["apiVersion"] == names.API_VERSION for job in jobs)
