"""Laneway is upgraded, rolled back, uninstalled and installed again while jobs run: none is lost or started again, no lane has two holders.

There is no older release yet. The one here is a chart of another version whose CRD lacks a field; its images are this tree's under a
second tag. So the upgrade replaces CRDs and pods, and old and new programs are the same.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.cluster.commands import run
from hack.cluster.probes import wait_until
from hack.cluster.progress import ClusterError
from hack.demo.install import CHART, DEMO_VALUES, RELEASE, SYSTEM_NAMESPACE, system_pods
from hack.demo.turns import overlaps_within_lanes, read_turns
from hack.images.targets import TARGETS, version
from tests.e2e.conftest import Bench
from tests.e2e.manifests import small_job, training_job
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
OLDER = "0.0.1"
_NEW_FIELD, _DEADLINE_SECONDS = "activeDeadlineSeconds", 2


@pytest.fixture
def older(bench: Bench, tmp_path: Path) -> Iterator[Bench]:
    """A bench with the older release; Laneway is as it was when the test is over."""
    installation, cluster = bench.laneway.installation, bench.laneway.cluster
    for image in installation.images:
        for node in cluster.nodes:
            tag = ("images", "tag", "--force", image.reference, image.reference.replace(version(), OLDER))
            run([*node.ctr(), *tag])
    chart = older_chart(tmp_path / "laneway")
    try:
        place = ("--namespace", SYSTEM_NAMESPACE, "--values", DEMO_VALUES, "--wait", "--timeout", "180s")
        installation.helm("upgrade", RELEASE, chart, *place)
        installation.wait_until_rolled_out()
        yield bench
    finally:
        installation.upgrade()
        installation.wait_until_advertised(400)


def older_chart(folder: Path) -> Path:
    """A copy of the chart in another version, without the new field."""
    shutil.copytree(CHART, folder)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    chart |= {"version": OLDER, "appVersion": OLDER}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(chart), encoding="utf-8")
    file = folder / "files" / "crds" / "trainingjobs.yaml"
    crd = yaml.safe_load(file.read_text(encoding="utf-8"))
    (served,) = crd["spec"]["versions"]
    del served["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][_NEW_FIELD]
    file.write_text(yaml.safe_dump(crd), encoding="utf-8")
    return folder


@dataclass(frozen=True)
class Lives:
    """What a lost or restarted worker changes."""

    containers: dict[str, str]
    """Ids by pod."""

    attempts: dict[str, tuple[int, int]]
    """Attempts and restarts by job."""

    @classmethod
    def of(cls, bench: Bench) -> Lives:
        views = bench.jobs.views().items()
        attempts = {name: (view.status.attempt, view.status.restarts) for name, view in views}
        return cls(containers(bench), attempts)


def start(bench: Bench) -> Lives:
    """Starts the jobs, and returns their lives once all are well under way."""
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
    return Lives.of(bench)


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


def check_unharmed(bench: Bench, before: Lives, turns: dict[str, int], since_seconds: float) -> None:
    """The same containers train in the same attempt; the agents gave no lane to two, and forgot no turn."""
    bench.laneway.installation.wait_until_rolled_out()
    now = wait_until_further(bench)
    assert all(now[pod] >= count for pod, count in turns.items())
    assert Lives.of(bench) == before
    laneway = bench.laneway
    agents = system_pods(laneway.installation.target, "node")
    held = read_turns(laneway.api, SYSTEM_NAMESPACE, agents, since_seconds, bench.namespace)
    assert held
    assert overlaps_within_lanes(held) == []


def check_release(bench: Bench, tag: str) -> None:
    """All containers of Laneway have images of this tag."""
    pods = bench.laneway.kubectl.get("pods", "--namespace", SYSTEM_NAMESPACE)["items"]
    there = [pod["spec"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    images = {
        container["image"]
        for spec in there
        for container in (*spec["containers"], *spec.get("initContainers", ()))
    }
    names = ("operator", "device-plugin", "node-agent", "client")
    assert images == {TARGETS[name].reference.replace(version(), tag) for name in names}


def bounded_job() -> dict[str, Any]:
    """A job that would never end without the new field."""
    spec = {"gpus": {"type": "Share", "sharePercent": 30}, "backoffLimit": 0, _NEW_FIELD: _DEADLINE_SECONDS}
    return small_job("bounded", spec=spec, tolerations=[])


def check_new_field_is_unknown(bench: Bench) -> None:
    with pytest.raises(ClusterError) as raised:
        bench.jobs.apply([bounded_job()])
    assert "unknown field" in str(raised.value)
    assert _NEW_FIELD in str(raised.value)


def check_new_field_works(bench: Bench) -> None:
    bench.jobs.apply([bounded_job()])
    job = bench.jobs.wait(["bounded"], lambda job: job.ended, "ended by its deadline", 120)["bounded"]
    assert f"The job ran for {_DEADLINE_SECONDS} s" in job.message("Failed")
    bench.laneway.kubectl.run("delete", "trainingjob", "bounded", "--namespace", bench.namespace)


def test_jobs_outlive_an_upgrade_a_rollback_and_an_uninstallation(older: Bench) -> None:
    bench, installation = older, older.laneway.installation
    before = start(bench)
    turns, since_seconds = wait_until_further(bench), time.time()
    check_release(bench, OLDER)
    check_new_field_is_unknown(bench)

    # Helm applies the CRDs first.
    installation.upgrade(*_CHANGED)
    check_unharmed(bench, before, turns, since_seconds)
    check_release(bench, version())
    check_new_field_works(bench)

    installation.helm("rollback", RELEASE, "--namespace", SYSTEM_NAMESPACE, "--wait", "--timeout", "180s")
    check_unharmed(bench, before, turns, since_seconds)
    check_release(bench, OLDER)
    check_new_field_is_unknown(bench)

    # The jobs and their CRDs stay, and their processes go on without Laneway.
    installation.helm("uninstall", RELEASE, "--namespace", SYSTEM_NAMESPACE, "--wait", "--timeout", "180s")
    kubectl = bench.laneway.kubectl
    wait_until(
        lambda: not kubectl.get("pods", "--namespace", SYSTEM_NAMESPACE)["items"],
        "Laneway's pods are gone",
        180,
    )
    assert containers(bench) == before.containers
    assert set(bench.jobs.views()) == set(JOBS)
    assert {pod["status"]["phase"] for pod in bench.jobs.pods()} == {"Running"}

    installation.upgrade()
    installation.wait_until_advertised(400)
    check_unharmed(bench, before, turns, since_seconds)
    bench.jobs.apply([training_job("after", steps=5)])
    bench.jobs.wait(["after"], lambda job: job.has("Complete"), "running after the installation", 120)
