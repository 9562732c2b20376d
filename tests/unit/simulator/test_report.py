"""The figures of a simulation."""

from __future__ import annotations

import pytest
from laneway.simulator import Knowledge, Sharing, as_json, as_table, make_nodes, percentile, report
from laneway.simulator.report import jain_ratio

from tests.unit.simulator.builders import SMALL, a_job, simulated

REQUIRED = {
    "policy",
    "placement",
    "jobs",
    "average_jct_seconds",
    "median_jct_seconds",
    "p95_jct_seconds",
    "p99_jct_seconds",
    "makespan_seconds",
    "preemptions",
    "decision_seconds",
}


def test_figures_of_two_jobs_one_after_the_other() -> None:
    simulation = simulated(a_job("a", 10, submit=2), a_job("b", 20, submit=2), order="fifo", nodes="1x2")
    found = report(simulation, policy="fifo", placement="best-fit")
    assert found.jobs == 2
    assert found.average_jct_seconds == 15
    assert found.median_jct_seconds == 15
    assert found.makespan_seconds == 20
    assert found.average_queueing_seconds == 0
    assert found.utilization_ratio == 30 / 40
    assert found.decision_seconds > 0


def test_jobs_that_never_finish_are_counted_and_explained() -> None:
    simulation = simulated(a_job("huge", 10, gpus=9))
    found = report(simulation, policy="fifo", placement="best-fit")
    assert (found.jobs, found.unfinished_jobs, found.average_jct_seconds) == (0, 1, 0)
    assert found.unfinished == ("huge: It needs 9 GPUs (9 workers), and the cluster has 1 suitable GPU.",)


@pytest.mark.parametrize(
    ("values", "percent", "want"),
    [([], 50, 0), ([7], 99, 7), ([1, 2, 3], 50, 2), ([0, 10], 95, 9.5), (list(range(101)), 99, 99)],
)
def test_percentiles(values: list[float], percent: float, want: float) -> None:
    assert percentile(values, percent) == want


def test_as_json_and_as_a_table() -> None:
    found = report(simulated(a_job("a", 12345)), policy="tiresias-las", placement="best-fit")
    (row,) = as_json([found])
    assert row.keys() >= REQUIRED
    lines = [line.split(maxsplit=1) for line in as_table([found]).splitlines()]
    assert lines[0] == ["policy", "tiresias-las"]
    assert ["makespan", "3.43 h"] in lines


def test_fairness_is_jains_index_over_slowdowns() -> None:
    alike = simulated(a_job("a", 10), a_job("b", 10), order="fifo", nodes="1x2")
    assert report(alike, policy="fifo", placement="best-fit").jain_fairness_ratio == 1
    behind = simulated(a_job("a", 10), a_job("b", 10), order="fifo")
    # slowdowns 1 and 2
    assert report(behind, policy="fifo", placement="best-fit").jain_fairness_ratio == pytest.approx(
        9 / (2 * 5)
    )


@pytest.mark.parametrize(
    ("values", "want"), [([], 1), ([3.0], 1), ([1.0, 0.0, 0.0, 0.0], 0.25), ([2.0, 2.0], 1)]
)
def test_jains_index(values: list[float], want: float) -> None:
    assert jain_ratio(values) == want


def test_fragmentation_counts_while_a_job_waits() -> None:
    simulation = simulated(
        a_job("part", 10, share=40), a_job("whole", 10, submit=1), a_job("other", 10, submit=11), order="fifo"
    )
    # from 1 to 10 whole waits, and 60 % are free: of use to one worker of three, that of 40 %
    found = report(simulation, policy="fifo", placement="best-fit")
    assert found.fragmentation_ratio == pytest.approx(2 / 3)
    idle = simulated(a_job("part", 10, share=40), order="fifo")
    assert report(idle, policy="fifo", placement="best-fit").fragmentation_ratio == 0


def test_shared_gpus_are_used_once_and_do_more_work() -> None:
    simulation = simulated(
        a_job("a", 10, profile=SMALL),
        a_job("b", 10, profile=SMALL),
        nodes=Sharing(2).shared(make_nodes("1x1")),
        order="fifo",
        knowledge=Knowledge(profiled=True),
    )
    found = report(simulation, policy="fifo", placement="best-fit")
    assert (found.utilization_ratio, found.work_ratio) == (1, 2)
