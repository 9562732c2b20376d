"""The CPUs that other pending pods request: CPUs that were lent to workers are given back for them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

from laneway.api.names import JOB_LABEL
from laneway.operator.pacing import WAITING_PODS_SECONDS
from laneway.operator.state.records.waiting_pod import WaitingPod, waiting_pod
from laneway.operator.state.resources import PODS
from laneway.operator.watch.apiserver import ApiServer
from laneway.operator.watch.relist import pages

_PAGE_PODS = 500
_MOST_KINDS = 256
"""The most kinds of pods that are remembered; each is compared with each node."""

_QUERY = {
    "fieldSelector": "spec.nodeName=,status.phase=Pending",
    "labelSelector": f"!{JOB_LABEL}",
    "limit": str(_PAGE_PODS),
}


class WaitingPods:
    """What such pods request, as it was seen last."""

    def __init__(self, api: ApiServer, wall: Callable[[], float]) -> None:
        self._api = api
        self._wall = wall
        self._looked_seconds = -math.inf
        self.pods: tuple[WaitingPod, ...] = ()
        """One of each kind: of those that request the same CPUs and choose nodes alike."""

    def forget(self) -> None:
        """Forget what was seen."""
        self._looked_seconds, self.pods = -math.inf, ()

    def is_due(self) -> bool:
        """Whether to look again."""
        return self._wall() >= self._looked_seconds + WAITING_PODS_SECONDS

    async def look(self) -> bool:
        """Look for such pods; return whether something has changed.

        Raises:
            ApiError, UnknownOutcome
        """
        self._looked_seconds = self._wall()
        found: dict[str, WaitingPod] = {}
        for namespace in self._api.scopes(PODS):
            async for page in pages(self._api, PODS, _QUERY, namespace):
                for raw in page["items"]:
                    if (pod := waiting_pod(raw)) and len(found) < _MOST_KINDS:
                        found[json.dumps([pod.cpu_millis, pod.spec], sort_keys=True)] = pod
        before, self.pods = self.pods, tuple(found[key] for key in sorted(found))
        return before != self.pods
