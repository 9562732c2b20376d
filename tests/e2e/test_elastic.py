"""Elastic jobs on real kubelets: real gangs restart with other numbers of workers from their checkpoints, and train each step once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from laneway.api.names import ATTEMPT_LABEL

from hack.cluster.probes import wait_until
from tests.e2e.conftest import Bench, Laneway
from tests.e2e.elastic_jobs import ElasticJobs
from tests.e2e.kills import delete_operator, operator_killer
from tests.e2e.node_view import running

_ELASTIC = "operator.config.scheduling.elastic"
_BFTRAINER = ("--set", f"{_ELASTIC}.policy=bftrainer", "--set", f"{_ELASTIC}.options.horizonSeconds=3600")
"""Over an hour, a GPU is worth a restart, however long that takes on the machine of the tests. Over the default of two minutes, to grow
from one worker to two does not pay where a restart takes longer than that."""

_WITHIN_SECONDS = 300
_STEP_SECONDS = 4
"""With one worker. With two, a job trains for over a quarter of an hour before it ends by itself."""

_TEST_IMAGES = 297
_OTHER_IMAGES = 2
"""Whatever the numbers of workers, all runs take the same steps with the same samples. Sums over workers are rounded differently, so
at most a few images between two classes are seen otherwise."""

_OTHER_LOSS = 0.01
"""Relative. Rounding changes less than a thousandth; a step left out, or momentum lost in a rescale, changes more."""


@pytest.fixture
def bftrainer(laneway: Laneway) -> Iterator[None]:
    """An elastic policy chooses the numbers of workers."""
    laneway.installation.upgrade(*_BFTRAINER)
    yield
    laneway.installation.upgrade()


def test_workers_follow_the_load_and_each_step_is_trained_once(
    bftrainer: None, bench: Bench, gpus: dict[str, list[str]]
) -> None:
    """Of the eight GPUs, short jobs take six, then one, then five, then none."""
    jobs, elastic = ElasticJobs(bench), ("a", "b", "c")

    def wait_for_workers(total: int) -> None:
        """Wait until the elastic jobs train with so many workers together."""
        found: list[int] = []
        bench.jobs.wait(
            elastic,
            lambda job: sum(found) == total,
            f"training with {total} workers together",
            _WITHIN_SECONDS,
            lambda views: found.__setitem__(slice(None), jobs.trains_with(elastic, views)),
        )

    jobs.submit(jobs.gang("fixed", workers=2, step_seconds=_STEP_SECONDS), jobs.short("short-1", 4))
    bench.jobs.wait(["fixed", "short-1"], running, "running", _WITHIN_SECONDS)
    kinds = {"a": "ddp", "b": "ddp", "c": "fsdp"}
    jobs.submit(
        *(
            jobs.gang(name, kind=kind, workers=2, minWorkers=1, maxWorkers=2, step_seconds=_STEP_SECONDS)
            for name, kind in kinds.items()
        )
    )
    wait_for_workers(2)

    jobs.go("fixed")
    jobs.finish("short-1")
    ended = bench.jobs.wait(["fixed", "short-1"], lambda job: job.ended, "ended", _WITHIN_SECONDS)
    assert all(ended[name].has("Complete") for name in ("fixed", "short-1"))
    bench.jobs.wait(elastic, running, "running", _WITHIN_SECONDS)
    jobs.submit(jobs.short("short-2", 1))
    wait_for_workers(6)

    jobs.submit(jobs.short("short-3", 4))
    bench.jobs.wait(["short-3"], running, "running on GPUs of elastic jobs", _WITHIN_SECONDS)
    wait_for_workers(3)

    jobs.finish("short-2", "short-3")
    wait_for_workers(6)

    jobs.go(*elastic)
    views = bench.jobs.wait(
        [*elastic, "short-2", "short-3"], lambda job: job.has("Complete"), "complete", _WITHIN_SECONDS
    )
    assert {views[name].status.restarts for name in elastic} == {0}
    for name in elastic:
        jobs.assert_each_step_trained_once(name)
        assert jobs.sizes(name)[-1] == 2
    resizes = [pair for name in elastic for pair in pairwise(jobs.sizes(name))]
    assert {(1, 2), (2, 1)} <= set(resizes), resizes
    fixed = jobs.result("fixed")
    assert fixed["accuracy"] > 0.9
    for found in map(jobs.result, elastic):
        assert found["accuracy"] == pytest.approx(fixed["accuracy"], abs=(_OTHER_IMAGES + 0.5) / _TEST_IMAGES)
        assert found["loss"] == pytest.approx(fixed["loss"], rel=_OTHER_LOSS)


def test_an_operator_that_is_killed_finishes_the_rescale(bench: Bench) -> None:
    """It is killed while the workers stop, and once more while the new ones start."""
    jobs = ElasticJobs(bench)
    jobs.submit(jobs.gang("train", workers=1, minWorkers=1, maxWorkers=2, step_seconds=6))
    wait_until(lambda: bool(jobs.steps("train")), "it trains with one worker", _WITHIN_SECONDS)
    first = bench.jobs.view("train").status.attempt
    kill_operator = operator_killer(bench.laneway)

    def pods_of(attempt: int) -> list[dict[str, Any]]:
        found = bench.jobs.pods("train")
        return [pod for pod in found if pod["metadata"]["labels"][ATTEMPT_LABEL] == str(attempt)]

    place = ("--namespace", bench.namespace)
    bench.laneway.kubectl.run("scale", "trainingjob/train", "--replicas=2", *place)
    wait_until(
        lambda: any("deletionTimestamp" in pod["metadata"] for pod in pods_of(first)),
        "its worker is told to stop",
        120,
    )
    kill_operator()
    assert not pods_of(first + 1), "the rescale has not got further"
    wait_until(lambda: bool(pods_of(first + 1)), "the new workers are created", _WITHIN_SECONDS)
    delete_operator(bench.laneway)

    wait_until(lambda: jobs.sizes("train") == [1, 2], "it trains with two workers", _WITHIN_SECONDS)
    jobs.go("train")
    status = bench.jobs.wait(["train"], lambda job: job.has("Complete"), "complete", _WITHIN_SECONDS)[
        "train"
    ].status
    assert (status.attempt, status.rescales, status.restarts, status.preemptions) == (first + 1, 1, 0, 0)
    assert status.rescale is not None
    assert (status.rescale.from_workers, status.rescale.to_workers) == (1, 2)
    jobs.assert_each_step_trained_once("train")
    assert len(pods_of(first + 1)) == len(bench.jobs.pods("train")) == 2
    assert jobs.result("train")["accuracy"] > 0.9
