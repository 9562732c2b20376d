"""Follows the output of the jobs' scripts while they run, because a worker's log disappears with its pod."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from laneway.api import names

from hack.cluster.progress import ClusterError
from hack.demo.api import Api

_PAUSE_SECONDS = 0.5
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
            thread = threading.Thread(target=self._follow, args=(name, uid, output), daemon=True)
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

    def _follow(self, name: str, uid: str, output: WorkerOutput) -> None:
        pod = f"/api/v1/namespaces/{self._namespace}/pods/{name}"
        with suppress(ClusterError, OSError):
            for line in self._api.lines(f"{pod}/log", {"follow": "true"}):
                output.lines.append(line)
        # The stream may have broken off, or ended before the runtime wrote the last lines: read on until the pod is gone, or has ended
        # and shows no more. The lines so far remain; a claim reports what it misses.
        ended = False
        while not ended:
            time.sleep(_PAUSE_SECONDS)
            lines = self._lines(pod)
            try:
                raw = self._api.get(pod)
            except ClusterError:
                return
            if raw["metadata"]["uid"] != uid:
                return  # its successor has its name
            if lines is None:
                continue
            ended = raw["status"]["phase"] in ("Succeeded", "Failed") and lines == output.lines
            if len(lines) >= len(output.lines):
                output.lines[:] = lines

    def _lines(self, pod: str) -> list[str] | None:
        """Return the lines of a pod's log so far; None where it cannot be read now."""
        try:
            return list(self._api.lines(f"{pod}/log", {}))
        except (ClusterError, OSError):
            return None


def _has_started(pod: Mapping[str, Any]) -> bool:
    statuses = pod["status"].get("containerStatuses") or ()
    return any({"running", "terminated"} & set(status.get("state") or {}) for status in statuses)
