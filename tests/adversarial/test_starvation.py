"""A gang completes within 3 times its work over what the load leaves, beside any stream of smaller jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from laneway.simulator import TraceJob

from tests.support.workloads import HOUR, MINUTE, a_job, completion_seconds, simulated, stream

FACTOR = 3.0
NODES = ("n0000", "n0001")


@pytest.mark.parametrize(
    ("cluster", "gpus", "width", "load", "work_hours"),
    [
        ("1x8", 8, 8, 0.8, 10),
        ("1x8", 8, 8, 0.7, 1),
        ("1x8", 8, 4, 0.95, 2),
        ("1x8", 8, 8, 0.95, 1),
        ("2x8", 16, 16, 0.5, 5),
    ],
)
def test_small_jobs_cannot_starve_a_gang(
    cluster: str, gpus: int, width: int, load: float, work_hours: float
) -> None:
    work = work_hours * HOUR
    bound = FACTOR * work / (1 - load)
    small = stream(load, gpus, 20 * MINUTE, 2 * bound)
    simulation = simulated(
        a_job("gang", work, gpus=width, submit=HOUR),
        *small,
        nodes=cluster,
        until_done="gang",
        until_seconds=2 * bound,
    )
    assert completion_seconds(simulation, "gang") <= bound


def test_several_gangs_share_what_the_load_leaves() -> None:
    """Three gangs of the whole cluster at a load of 0.5; together they are the work of one three times as long."""
    bound = FACTOR * 3 * 2 * HOUR / (1 - 0.5)
    gangs = [a_job(f"gang-{number}", 2 * HOUR, gpus=8, submit=HOUR) for number in range(3)]
    simulation = simulated(
        *gangs, *stream(0.5, 8, 20 * MINUTE, 2 * bound), nodes="1x8", until_seconds=2 * bound
    )
    for number in range(3):
        assert completion_seconds(simulation, f"gang-{number}") <= bound


def test_small_jobs_are_not_kept_waiting_for_long_by_a_gang() -> None:
    """While a gang takes its share, nobody waits longer than its quantum and a few of their own kind."""
    small = list(stream(0.5, 8, 5 * MINUTE, 30 * HOUR))
    simulation = simulated(a_job("gang", 10 * HOUR, gpus=8, submit=HOUR), *small, nodes="1x8")
    assert max(completion_seconds(simulation, job.key.removeprefix("ns/")) for job in small) < 3 * HOUR


def test_jobs_without_checkpoints_cannot_starve_a_gang() -> None:
    """Newcomers that may not be evicted after ten minutes, because they have unsaved work."""
    small = stream(0.8, 8, 20 * MINUTE, 200 * HOUR, saves=False)
    simulation = simulated(
        a_job("gang", 5 * HOUR, gpus=8, submit=HOUR), *small, nodes="1x8", until_done="gang"
    )
    assert completion_seconds(simulation, "gang") <= FACTOR * 5 * HOUR / (1 - 0.8)


def test_jobs_with_unsaved_work_cannot_starve_a_gang() -> None:
    """They run for two hours each, so that none may be evicted when the gang goes first."""
    bound = FACTOR * 2 * HOUR / (1 - 0.8)
    simulation = simulated(
        a_job("gang", 2 * HOUR, gpus=8, submit=HOUR),
        *stream(0.8, 8, 2 * HOUR, 2 * bound, saves=False),
        nodes="1x8",
        until_done="gang",
        until_seconds=2 * bound,
    )
    assert completion_seconds(simulation, "gang") <= bound


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_small_jobs_cannot_starve_a_paused_gang(load: float) -> None:
    """A gang that is paused resumes only where it is, and the small jobs there end one by one."""
    work = 5 * HOUR
    bound = FACTOR * work / (1 - load)
    simulation = simulated(
        a_job("gang", work, gpus=8, saves=False),
        *stream(load, 8, 20 * MINUTE, 2 * bound),
        nodes="1x8",
        pauses=True,
        until_done="gang",
        until_seconds=2 * bound,
    )
    assert completion_seconds(simulation, "gang") <= bound
    assert simulation.runs["ns/gang"].evictions == 0


def test_jobs_that_can_never_run_do_not_count() -> None:
    """30 gangs of 100 GPUs wait on a cluster of 8."""
    never = [a_job(f"never-{number:02}", HOUR, gpus=100) for number in range(30)]
    small = stream(0.5, 8, 20 * MINUTE, 60 * HOUR)
    simulation = simulated(
        a_job("gang", 2 * HOUR, gpus=8, submit=HOUR), *never, *small, nodes="1x8", until_done="gang"
    )
    assert completion_seconds(simulation, "gang") <= FACTOR * 2 * HOUR / (1 - 0.5)


def on_the_second(jobs: Iterator[TraceJob]) -> Iterator[TraceJob]:
    return (replace(job, avoided_nodes=frozenset({NODES[0]})) for job in jobs)


@pytest.mark.parametrize("only_on", [NODES[1], ""])
@pytest.mark.parametrize("load", [0.5, 0.8])
def test_gangs_that_can_use_another_node_only_do_not_count(only_on: str, load: float) -> None:
    """30 gangs are pinned to the first of two nodes; the load is on the second one, where this gang may run."""
    bound = FACTOR * 2 * HOUR / (1 - load)
    pinned = [
        a_job(f"pinned-{number:02}", 100 * HOUR, gpus=8, only_on=NODES[0], nodes=NODES)
        for number in range(30)
    ]
    simulation = simulated(
        a_job("gang", 2 * HOUR, gpus=8, submit=HOUR, only_on=only_on, nodes=NODES),
        *pinned,
        *on_the_second(stream(load, 8, 20 * MINUTE, 2 * bound)),
        nodes="2x8",
        until_done="gang",
        until_seconds=2 * bound,
    )
    assert completion_seconds(simulation, "gang") <= bound
