"""Elastic jobs that train real gangs, short jobs beside them, and what of both is seen from outside."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hack.demo.jobs import JobView
from tests.e2e.conftest import Bench
from tests.e2e.manifests import SHARED_FOLDER, SMALL_IMAGE, training_job

EPOCHS = 20
STEPS = 25 * EPOCHS
"""The worker's script has 25 steps in an epoch."""

_SCRIPT = (Path(__file__).parents[1] / "support" / "elastic_worker.py").read_text(encoding="utf-8")
_UNTIL_DONE = """
import os, time
from laneway.client import iteration
while not os.path.exists(os.environ["FOLDER"] + "/done"):
    with iteration():
        pass
    time.sleep(0.2)
"""


class ElasticJobs:
    """The jobs of one test. Each has a folder that its workers on all nodes, and the test, can read."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._folder = bench.laneway.cluster.cluster.shared_folder / bench.namespace

    def submit(self, *jobs: dict[str, Any]) -> None:
        """Create the jobs' folders and the jobs."""
        for job in jobs:
            (self._folder / job["metadata"]["name"]).mkdir(parents=True)
        self.bench.jobs.apply(jobs)

    def gang(self, name: str, *, kind: str = "ddp", step_seconds: float, **spec: Any) -> dict[str, Any]:
        """Return a job that trains; with `minWorkers` and `maxWorkers` in its spec, an elastic one.

        Args:
            name: its name.
            kind: how its model is parallel: ddp or fsdp.
            step_seconds: the time for a step with one worker, until `go` is called.
            spec: further fields of its spec.
        """
        return self._job(name, _SCRIPT, spec, kind=kind, step_seconds=step_seconds, epochs=EPOCHS)

    def short(self, name: str, gpus: int) -> dict[str, Any]:
        """Return a rigid job with a worker for each of its GPUs, which ends when `finish` is called."""
        job = self._job(name, _UNTIL_DONE, {"workers": gpus})
        job["spec"]["template"]["spec"]["containers"][0]["image"] = SMALL_IMAGE
        return job

    def go(self, *names: str) -> None:
        """Let jobs train as fast as they can from now on."""
        for name in names:
            (self._folder / name / "go").touch()

    def finish(self, *names: str) -> None:
        """Let short jobs end."""
        for name in names:
            (self._folder / name / "done").touch()

    def steps(self, name: str) -> list[dict[str, int]]:
        """Return what rank 0 wrote of each step that it trained, in any attempt."""
        file = self._folder / name / "steps"
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def result(self, name: str) -> dict[str, float]:
        """Return the accuracy and the loss of a job's model at its end, on test images."""
        found: dict[str, float] = json.loads((self._folder / name / "result").read_text(encoding="utf-8"))
        return found

    def sizes(self, name: str) -> list[int]:
        """Return the numbers of workers of a job's attempts, of those that trained a step."""
        by_attempt = {step["first"]: step["workers"] for step in self.steps(name)}
        return [workers for _, workers in sorted(by_attempt.items())]

    def trains_with(self, names: tuple[str, ...], views: Mapping[str, JobView]) -> list[int]:
        """Return the number of workers with which each job trains now: 0 while it waits, stops or starts."""
        return [self._trains_with(views[name]) for name in names]

    def _trains_with(self, view: JobView) -> int:
        steps = self.steps(view.name)
        workers = len(view.status.placement)
        # An attempt begins where the one before it ended, so its steps tell the attempts apart.
        return workers if view.has("Running") and steps and steps[-1]["workers"] == workers else 0

    def assert_each_step_trained_once(self, name: str) -> None:
        """Each attempt began at the last step of the one before it, and the last one ended at the target."""
        steps = self.steps(name)
        assert [step["step"] for step in steps] == list(range(1, STEPS + 1)), self.sizes(name)

    def _job(self, name: str, script: str, spec: Mapping[str, Any], **parameters: object) -> dict[str, Any]:
        folder = f"{SHARED_FOLDER}/{self.bench.namespace}/{name}"
        whole = {"gpus": {"type": "Count", "count": 1}, "backoffLimit": 0, **spec}
        job = training_job(name, spec=whole, folder=folder, **parameters)
        job["spec"]["template"]["spec"]["containers"][0]["command"][-1] = script
        return job
