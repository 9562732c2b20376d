"""A GPU fails under a job: it gets no new pods, the job resumes elsewhere, and the GPU returns when it is
healthy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hack.cluster.probes import wait_until
from hack.demo.jobs import JobView
from tests.e2e.conftest import Bench, Laneway
from tests.e2e.manifests import SHARED_FOLDER, training_job
from tests.e2e.node_view import (
    AGENT,
    gpu_status,
    on_node,
    running,
    set_simulated_faults,
    wait_until_further,
)

_PATIENT = ("--set", "operator.config.timeouts.unhealthyGpuSeconds=600")
"""However slow the machine is, a moment's hang ends before."""


@pytest.fixture
def patient(laneway: Laneway) -> Iterator[None]:
    """The operator waits long for an unhealthy GPU to recover."""
    laneway.installation.upgrade(*_PATIENT)
    yield
    laneway.installation.upgrade()


@pytest.fixture
def breakable(bench: Bench) -> Iterator[Bench]:
    """A bench whose GPUs are all sound again, and on offer, when the test is over."""
    yield bench
    laneway = bench.laneway
    for node in laneway.kubectl.get("gpunodes")["items"]:
        name = node["metadata"]["name"]
        set_simulated_faults(laneway, name)
        for gpu in node["status"]["gpus"]:
            if "needs a reset" in gpu.get("healthReason", ""):  # others come back by themselves
                on_node(laneway, name, AGENT, "gpu", "clear", gpu["uuid"])
    laneway.installation.wait_until_advertised(400)


def test_a_job_leaves_a_gpu_that_broke_and_goes_on_from_its_checkpoint(breakable: Bench) -> None:
    bench, laneway = breakable, breakable.laneway
    checkpoint = f"{SHARED_FOLDER}/{bench.namespace}.pt"
    job = training_job(
        "hit", spec={"backoffLimit": 0}, steps=100_000, pace_seconds=0.02, checkpoint=checkpoint
    )
    bench.jobs.apply([job])
    seen = bench.jobs.wait(["hit"], running, "running", 180, bench.follow)["hit"]
    # Before its handler of SIGTERM is there, it would end without a checkpoint.
    wait_until_further(bench, "hit-0", 5)
    (worker,) = seen.status.placement
    (uuid,) = worker.gpus
    index = gpu_status(laneway, worker.node, uuid)["index"]

    set_simulated_faults(laneway, worker.node, {"gpu": index, "xids": [79]})

    def elsewhere(view: JobView) -> bool:
        return running(view) and view.status.placement[0].gpus != (uuid,)

    after = bench.jobs.wait(["hit"], elsewhere, "running on another GPU", 240, bench.follow)["hit"]
    assert (after.status.restarts, after.status.preemptions) == (0, 0), "nobody's failure"
    gpu = gpu_status(laneway, worker.node, uuid)
    assert not gpu["healthy"]
    assert "XID 79 (GPU has fallen off the bus)" in gpu["healthReason"]

    def says_why() -> bool:
        events = laneway.kubectl.get("events", "--namespace", bench.namespace)["items"]
        notes = [event["message"] for event in events if event["reason"] == "Disrupted"]
        return any(uuid in note and "XID 79" in note for note in notes)

    wait_until(says_why, "an event says why, which is a write of its own", 120)
    wait_until(
        lambda: laneway.installation.advertised_percent()[worker.node] == 300,
        "the kubelet offers the shares of three GPUs",
        120,
    )

    def went_on() -> bool:
        bench.follow()
        attempts = bench.outputs.attempts("hit", 0)
        return len(attempts) > 1 and any(
            event["event"] == "start" and event["step"] > 0 for event in attempts[-1].events
        )

    wait_until(went_on, "the worker goes on from its checkpoint", 180)

    set_simulated_faults(laneway, worker.node)
    assert "unhealthy" in on_node(laneway, worker.node, AGENT, "gpu", "list")
    on_node(laneway, worker.node, AGENT, "gpu", "clear", uuid)
    laneway.installation.wait_until_advertised(400)
    wait_until(lambda: gpu_status(laneway, worker.node, uuid)["healthy"], "the GPUNode says so too", 120)


def test_a_gpu_whose_driver_hung_for_a_moment_keeps_its_job(patient: None, breakable: Bench) -> None:
    bench, laneway = breakable, breakable.laneway
    bench.jobs.apply([training_job("stays", steps=100_000, pace_seconds=0.02)])
    before = bench.jobs.wait(["stays"], running, "running", 180)["stays"].status
    (worker,) = before.placement
    (uuid,) = worker.gpus
    index = gpu_status(laneway, worker.node, uuid)["index"]

    set_simulated_faults(laneway, worker.node, {"gpu": index, "hangs": True})
    wait_until(
        lambda: not gpu_status(laneway, worker.node, uuid)["healthy"], "the node takes it out of use", 120
    )
    assert "the driver hangs" in gpu_status(laneway, worker.node, uuid)["healthReason"]
    set_simulated_faults(laneway, worker.node)
    wait_until(lambda: gpu_status(laneway, worker.node, uuid)["healthy"], "the node takes it back", 120)
    laneway.installation.wait_until_advertised(400)
    job = bench.jobs.view("stays")
    assert job.has("Running")
    assert (job.status.attempt, job.status.placement[0].gpus) == (before.attempt, (uuid,))
