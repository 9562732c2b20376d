"""What CPUs and memory do to a simulated job: one node of 8 GPUs, 24 CPUs and 500 GiB, as Synergy measured on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.scheduling import Demand, HostResources, WorkerPlacement, policies
from laneway.scheduling.model.plan import WorkerAllotment
from laneway.simulator import Simulation, TraceJob, make_nodes
from laneway.simulator.models.synergy import GIB, SENSITIVITIES, Synergy

from tests.unit.simulator.builders import FREE, finishes


@pytest.mark.parametrize(
    ("model", "cpus", "memory_gib", "ratio"),
    [
        ("alexnet", 3, 62.5, 1.0),
        ("alexnet", 12, 125, 2.94),
        ("alexnet", 12, 62.5, 2.0),
        ("alexnet", 1.5, 62.5, 0.5),
        ("alexnet", 24, 500, 2.94),
        ("res50", 3.5, 62.5, 1.075),
        ("gnmt", 1, 21, 1.0),
        ("gnmt", 3, 62.5, 1.0),
    ],
)
def test_a_job_runs_at_synergys_measured_speed(
    model: str, cpus: float, memory_gib: float, ratio: float
) -> None:
    allotted = (WorkerAllotment(0, int(1000 * cpus), int(memory_gib * GIB)),)
    placement = (WorkerPlacement(0, "n0", ("n0-0",), 100),)
    assert Synergy().speed_ratio(SENSITIVITIES[model], placement, allotted) == pytest.approx(ratio)


def test_a_gang_waits_for_the_worker_with_the_fewest_cpus_for_a_gpu() -> None:
    placement = (WorkerPlacement(0, "n0", ("a", "b"), 100), WorkerPlacement(1, "n1", ("c", "d"), 100))
    allotted = (WorkerAllotment(0, 24_000, 250 * GIB), WorkerAllotment(1, 6000, 125 * GIB))
    assert Synergy().speed_ratio(SENSITIVITIES["alexnet"], placement, allotted) == pytest.approx(1.0)


def test_a_share_with_which_a_job_does_not_run_is_refused() -> None:
    model = Synergy(share_cpu_millis=3000, share_memory_bytes=GIB)
    with pytest.raises(ValueError, match="give the share for which the trace's durations were counted"):
        model.speed_ratio(
            SENSITIVITIES["m5"], (WorkerPlacement(0, "n", ("a",), 100),), (WorkerAllotment(0, 1, 1),)
        )


def simulated(allocation: str, *models: str) -> dict[str, float | None]:
    """When jobs of these models finish that have 1000 s of work with their proportional shares."""
    jobs = [
        TraceJob(f"{number}-{model}", Demand(), 0.0, 1000.0, model=model, sensitivity=SENSITIVITIES[model])
        for number, model in enumerate(models)
    ]
    nodes = [
        replace(node, host=HostResources.of({"cpu": 24_000, "memory": 500 * GIB}))
        for node in make_nodes("1x8")
    ]
    simulation = Simulation(jobs, nodes, policies(order="fifo", allocation=allocation), FREE, model=Synergy())
    simulation.run()
    return finishes(simulation)


def test_with_proportional_shares_jobs_run_as_in_the_trace() -> None:
    finished = simulated("proportional", "alexnet", *["gnmt"] * 7)
    assert all(seconds == pytest.approx(1000) for seconds in finished.values())


@pytest.mark.parametrize("allocation", ["tune", "optimal"])
def test_tuning_speeds_up_jobs_that_lacked_cpus_and_slows_none_down(allocation: str) -> None:
    finished = simulated(allocation, "alexnet", *["gnmt"] * 7)
    assert finished.pop("0-alexnet") == pytest.approx(1000 / 2.94, rel=0.02)
    assert all(seconds == pytest.approx(1000) for seconds in finished.values())


def test_freed_cpus_go_to_the_remaining_jobs() -> None:
    """Two share what there is until one has finished; eight of a kind run as in the trace to the end."""
    crowd = simulated("tune", *["alexnet"] * 8)
    assert all(seconds == pytest.approx(1000) for seconds in crowd.values())
    mixed = simulated("tune", "alexnet", "alexnet", *["lstm"] * 6)
    assert mixed["0-alexnet"] is not None
    assert mixed["1-alexnet"] is not None
    assert mixed["0-alexnet"] < mixed["1-alexnet"] < 1000 / 1.5


def test_greedy_stops_jobs_without_cpus() -> None:
    finished = simulated("greedy", "alexnet", "alexnet", "alexnet")
    assert finished["0-alexnet"] == pytest.approx(1000 / 2.94, rel=0.02)
    assert finished["2-alexnet"] == pytest.approx(2 * 1000 / 2.94, rel=0.02)
