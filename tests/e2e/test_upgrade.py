"""Laneway is upgraded, rolled back, uninstalled and installed again while jobs run: none is lost or started again, no lane has two holders."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from hack.cluster.probes import wait_until
from hack.demo.install import RELEASE, SYSTEM_NAMESPACE, system_pods
from hack.demo.turns import overlaps_within_lanes, read_turns
from tests.e2e.conftest import Bench
from tests.e2e.manifests import training_job
from tests.e2e.node_view import connected, containers, running

LANE_JOBS = ("a", "b", "c")
"""On one GPU with two lanes: two of them share a lane."""

JOBS = (*LANE_JOBS, "gang")
_CHANGED = (
    "--set",
    "node.config.turns.quantumMilliseconds=60",
    "--set",
    "operator.config.cycle.resyncSeconds=9",
)
"""Replaces the operator and, one node after another, the node pods."""


@pytest.fixture
def installed_afterwards(bench: Bench) -> Iterator[Bench]:
    """A bench; Laneway is as it was when the test is over."""
    yield bench
    bench.laneway.installation.upgrade()
    bench.laneway.installation.wait_until_advertised(400)


def start(bench: Bench) -> dict[str, str]:
    """Starts the jobs, and returns their containers once all are well under way."""
    gang = {
        "workers": 2,
        "gpus": {"type": "Share", "sharePercent": 30},
        "placement": "Spread",
        "backoffLimit": 0,
    }
    bench.jobs.apply(
        [
            *(
                training_job(name, spec={"backoffLimit": 0}, steps=10_000_000, pace_seconds=0.02)
                for name in LANE_JOBS
            ),
            training_job("gang", spec=gang, steps=10_000_000, pace_seconds=0.05),
        ]
    )
    bench.jobs.wait(JOBS, running, "running", 120)
    wait_until_further(bench)
    return containers(bench)


def wait_until_further(bench: Bench) -> dict[str, int]:
    """Waits until every worker is connected and has done more iterations; returns their turns so far."""
    workers = {"a-0", "b-0", "c-0", "gang-0", "gang-1"}
    wait_until(lambda: set(connected(bench)) == workers, "all clients are connected", 120)
    before = {pod: session["iterations"] for pod, session in connected(bench).items()}

    def further() -> bool:
        now = connected(bench)
        return all(pod in now and now[pod]["iterations"] > count for pod, count in before.items())

    wait_until(further, "all go on training", 120)
    return {pod: session["turns"] for pod, session in connected(bench).items()}


def check_unharmed(bench: Bench, before: dict[str, str], turns: dict[str, int], since_seconds: float) -> None:
    """The same containers train in their first attempt; the agents gave no lane to two, and forgot no turn."""
    # `helm --wait` returns while one node pod may still be replaced.
    for name in ("deployment/laneway-operator", "daemonset/laneway-node"):
        command = ("rollout", "status", name, "--namespace", SYSTEM_NAMESPACE, "--timeout=180s")
        bench.laneway.kubectl.run(*command)
    now = wait_until_further(bench)
    assert all(now[pod] >= count for pod, count in turns.items())
    assert containers(bench) == before
    views = bench.jobs.views()
    assert {
        name: (view.status.attempt, view.status.restarts) for name, view in views.items()
    } == dict.fromkeys(JOBS, (1, 0))
    laneway = bench.laneway
    agents = system_pods(laneway.installation.target, "node")
    held = read_turns(laneway.api, SYSTEM_NAMESPACE, agents, since_seconds, bench.namespace)
    assert held
    assert overlaps_within_lanes(held) == []


def test_jobs_outlive_an_upgrade_a_rollback_and_an_uninstallation(installed_afterwards: Bench) -> None:
    bench, installation = installed_afterwards, installed_afterwards.laneway.installation
    before = start(bench)
    turns, since_seconds = wait_until_further(bench), time.time()

    installation.upgrade(*_CHANGED)
    check_unharmed(bench, before, turns, since_seconds)

    installation.helm("rollback", RELEASE, "--namespace", SYSTEM_NAMESPACE, "--wait", "--timeout", "180s")
    check_unharmed(bench, before, turns, since_seconds)

    # The jobs and their CRDs stay, and their processes go on without Laneway.
    installation.helm("uninstall", RELEASE, "--namespace", SYSTEM_NAMESPACE, "--wait", "--timeout", "180s")
    wait_until(lambda: not system_pods(installation.target, "node"), "the node pods are gone", 60)
    assert containers(bench) == before
    assert set(bench.jobs.views()) == set(JOBS)
    assert {pod["status"]["phase"] for pod in bench.jobs.pods()} == {"Running"}

    installation.upgrade()
    installation.wait_until_advertised(400)
    check_unharmed(bench, before, turns, since_seconds)
    bench.jobs.apply([training_job("after", steps=5)])
    bench.jobs.wait(["after"], lambda job: job.has("Complete"), "running after the installation", 120)
