"""Applies the jobs of `examples/` in order and collects evidence meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from laneway.api import names
from laneway.api.gpu_sharing import OFFERED_PERCENT

from hack.demo.api import Api
from hack.demo.claims import ELASTIC, GANG, HALF, LANES, LONG, NEVER_FITS, OUTGROWS, SHORT
from hack.demo.evidence import Evidence
from hack.demo.install import REPOSITORY, SYSTEM_NAMESPACE, Installation, system_pods
from hack.demo.jobs import Jobs, JobView
from hack.demo.output import Outputs
from hack.demo.screen import Screen
from hack.demo.turns import Turn, read_turns

EXAMPLES = REPOSITORY / "examples"
NAMESPACE = "laneway-demo"
SHARING_VALUES = Path(__file__).with_name("sharing.yaml")

_PLACED_SECONDS = 60.0
_END_SECONDS = 240.0


class Scenario:
    """One run of the demo's jobs on a cluster with Laneway."""

    def __init__(self, installation: Installation, api: Api, screen: Screen) -> None:
        self.evidence = Evidence()
        self._installation = installation
        self._target = installation.target
        self._api = api
        self._screen = screen
        self._jobs = Jobs(api, self._target.kubectl, NAMESPACE)
        self._outputs = Outputs(api, NAMESPACE)
        self._since_seconds = time.time()
        self._earlier_turns: list[Turn] = []
        """Of agents that have ended."""

    def clear(self) -> None:
        """Delete the jobs of an earlier run."""
        self._jobs.make_namespace()
        self._jobs.delete_all()

    def run(self) -> None:
        """Apply the jobs and follow them until they end.

        Raises:
            ClusterError: a step did not finish in time; the message names it and the jobs' states.
        """
        self._lanes_and_gang()
        self._preemption()
        self._elastic()
        self._sharing()

    def _lanes_and_gang(self) -> None:
        together = (*LANES, OUTGROWS)
        self._apply(NEVER_FITS, *together)
        self._wait(
            together, lambda job: bool(job.status.placement) or job.ended, "being placed", _PLACED_SECONDS
        )
        self._apply(GANG)
        self._wait((*together, GANG), lambda job: job.ended, "ending", _END_SECONDS)

    def _preemption(self) -> None:
        self._apply(LONG)
        self._wait(
            (LONG,),
            lambda job: job.has("Running") and job.status.queue > 0,
            "attaining enough service to leave queue 0",
            _END_SECONDS,
        )
        self._apply(*SHORT)
        self._wait((LONG, *SHORT), lambda job: job.ended, "ending", _END_SECONDS)

    def _elastic(self) -> None:
        self._apply(ELASTIC)
        self._wait((ELASTIC,), lambda job: job.ended or self._has_trained(ELASTIC), "training", _END_SECONDS)
        scale = ("scale", f"trainingjob/{ELASTIC}", "--replicas=2")
        self._screen.say(f"kubectl {' '.join(scale)}")
        self._target.kubectl.run(*scale, "--namespace", NAMESPACE)
        self._wait((ELASTIC,), lambda job: job.ended, "ending", _END_SECONDS)

    def _has_trained(self, job: str) -> bool:
        """Whether the first worker has printed a step of its training."""
        lines = (line for attempt in self._outputs.attempts(job) for line in attempt.lines)
        return any(line.startswith("step ") for line in lines)

    def _sharing(self) -> None:
        self._earlier_turns += self._turns()
        self._since_seconds = time.time()
        self._screen.say(f"helm upgrade --values hack/demo/{SHARING_VALUES.name}")
        self._installation.upgrade("--values", SHARING_VALUES)
        self._installation.wait_until_advertised(OFFERED_PERCENT["lanes"])
        self._apply(*HALF)
        self._wait(HALF, lambda job: job.ended, "ending", _END_SECONDS)

    def _apply(self, *jobs: str) -> None:
        files = [manifest(job) for job in jobs]
        self._screen.say(f"kubectl apply {' '.join(f'-f examples/{file.name}' for file in files)}")
        self._jobs.apply(files)

    def _wait(
        self, jobs: Sequence[str], condition: Callable[[JobView], bool], what: str, timeout_seconds: float
    ) -> None:
        self._jobs.wait(jobs, condition, what, timeout_seconds, self._look)

    def _look(self, views: Mapping[str, JobView]) -> None:
        pods = self._jobs.pods()
        self._outputs.follow(pods)
        self.evidence.see_jobs(views)
        self.evidence.see_pods(pods)
        self.evidence.see_gpu_nodes(self._api.items(f"/apis/{names.API_VERSION}/gpunodes"))
        self._screen.show(views)

    def gathered(self) -> Evidence:
        """Return the evidence, with the agents' record of turns and the scripts' output."""
        self._outputs.settle()
        evidence = self.evidence
        evidence.turns = [*self._earlier_turns, *self._turns()]
        evidence.outputs = {name: self._outputs.attempts(name) for name in evidence.jobs}
        accuracies = {name: self._outputs.accuracy(name) for name in evidence.jobs}
        evidence.accuracies = {name: value for name, value in accuracies.items() if value is not None}
        return evidence

    def _turns(self) -> list[Turn]:
        """Return what the agents remember of turns since they started, or since the demo began."""
        agents = system_pods(self._target, "node")
        return read_turns(self._api, SYSTEM_NAMESPACE, agents, self._since_seconds, NAMESPACE)


def manifest(job: str) -> Path:
    """Return the file of an example."""
    return EXAMPLES / f"{job}.yaml"
