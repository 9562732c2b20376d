"""Follows the output of the jobs' scripts while they run, because a worker's log disappears with its pod."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from laneway.api import names

from hack.cluster.progress import ClusterError
from hack.demo.api import Api

_ACCURACY = re.compile(r"accuracy\W{1,4}([01](?:\.\d+)?)")


@dataclass
class WorkerOutput:
    """The lines of one worker in one attempt."""

    job: str
    rank: int
    attempt: int
    lines: list[str] = field(default_factory=list)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The lines that are JSON objects."""
        found = []
        for line in list(self.lines):
            if line.startswith("{"):
                try:
                    found.append(json.loads(line))
                except ValueError:
                    continue
        return found


class Outputs:
    """Follows the logs of all workers of a namespace, each in a thread of its own."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.by_pod: dict[str, WorkerOutput] = {}
        self._api = api
        self._namespace = namespace
        self._threads: list[threading.Thread] = []

    def follow(self, pods: list[dict[str, Any]]) -> None:
        """Start to follow the started pods that are not followed yet."""
        for pod in pods:
            uid, labels = pod["metadata"]["uid"], pod["metadata"]["labels"]
            if uid in self.by_pod or not _has_started(pod):
                continue
            output = WorkerOutput(
                labels[names.JOB_LABEL],
                int(labels[names.RANK_LABEL]),
                int(labels.get(names.ATTEMPT_LABEL, "1")),
            )
            self.by_pod[uid] = output
            name = pod["metadata"]["name"]
            thread = threading.Thread(target=self._follow, args=(name, output), daemon=True)
            thread.start()
            self._threads.append(thread)

    def settle(self, timeout_seconds: float = 10.0) -> None:
        """Wait until the logs of ended workers are read completely."""
        for thread in self._threads:
            thread.join(timeout_seconds)

    def attempts(self, job: str, rank: int = 0) -> list[WorkerOutput]:
        """Return a worker's output by attempt."""
        mine = [output for output in self.by_pod.values() if (output.job, output.rank) == (job, rank)]
        return sorted(mine, key=lambda output: output.attempt)

    def accuracy(self, job: str) -> float | None:
        """Return the last accuracy that a job's first worker printed; None if it printed none."""
        for output in reversed(self.attempts(job)):
            found = _ACCURACY.findall("\n".join(output.lines))
            if found:
                return float(found[-1])
        return None

    def _follow(self, pod: str, output: WorkerOutput) -> None:
        path = f"/api/v1/namespaces/{self._namespace}/pods/{pod}/log"
        try:
            for line in self._api.lines(path, {"follow": "true"}):
                output.lines.append(line)
        except (ClusterError, OSError):
            # The pod was deleted during the read. The lines so far remain; a claim reports what it misses.
            return


def _has_started(pod: Mapping[str, Any]) -> bool:
    statuses = pod["status"].get("containerStatuses") or ()
    return any({"running", "terminated"} & set(status.get("state") or {}) for status in statuses)
