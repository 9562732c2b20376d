"""The CPUs that pods wait for which are no workers: CPUs that were lent to workers are given back for them."""

from __future__ import annotations

import math
from collections.abc import Callable

from laneway.api.names import JOB_LABEL
from laneway.api.pod_requests import pod_requests
from laneway.operator.pacing import WAITING_PODS_SECONDS
from laneway.operator.state.resources import PODS
from laneway.operator.watch.apiserver import ApiServer, Raw

_MOST_PODS = 500
_QUERY = {
    "fieldSelector": "spec.nodeName=,status.phase=Pending",
    "labelSelector": f"!{JOB_LABEL}",
    "limit": str(_MOST_PODS),
}
_NO_CPUS = "Insufficient cpu"
"""In kube-scheduler's message."""


class WaitingPods:
    """What such pods request, as it was seen last."""

    def __init__(self, api: ApiServer, wall: Callable[[], float]) -> None:
        self._api = api
        self._wall = wall
        self._looked_seconds = -math.inf
        self.cpus_millis: tuple[int, ...] = ()
        """CPUs that they request, each amount once, rising; in thousandths."""

    def forget(self) -> None:
        """Forget what was seen."""
        self._looked_seconds, self.cpus_millis = -math.inf, ()

    def is_due(self) -> bool:
        """Whether to look again."""
        return self._wall() >= self._looked_seconds + WAITING_PODS_SECONDS

    async def look(self) -> bool:
        """Look for such pods; return whether something has changed.

        Raises:
            ApiError, UnknownOutcome
        """
        self._looked_seconds = self._wall()
        found: set[int] = set()
        for namespace in self._api.scopes(PODS):
            pods = await self._api.request("GET", PODS.path(namespace), query=_QUERY)
            found |= {cpus for pod in pods["items"] if (cpus := _waits_for_cpus(pod))}
        before, self.cpus_millis = self.cpus_millis, tuple(sorted(found))
        return before != self.cpus_millis


def _waits_for_cpus(pod: Raw) -> int:
    """Return the CPUs that a pod requests, if kube-scheduler finds none for it; else 0."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    scheduled: Raw = next((each for each in conditions if each.get("type") == "PodScheduled"), {})
    if scheduled.get("status") != "False" or _NO_CPUS not in (scheduled.get("message") or ""):
        return 0
    return pod_requests(pod["spec"]).get("cpu", 0)
