"""Counts workers as they are bound to nodes."""

from __future__ import annotations

import time

from laneway.api import names
from laneway.operator.watch.apiserver import Raw


class BoundPods:
    """Takes the events of pods; see :func:`tests.performance.scale.client.watching`."""

    def __init__(self) -> None:
        self.bound: dict[str, float] = {}
        """By uid: when it was seen, in seconds of the monotonic clock."""

        self.started: set[str] = set()
        self._percent: dict[str, int] = {}

    def take(self, kind: str, pod: Raw) -> None:
        """Take note of an event."""
        uid = pod["metadata"]["uid"]
        if kind == "DELETED":
            self.bound.pop(uid, None)
            self._percent.pop(uid, None)
        elif pod["spec"].get("nodeName"):
            self.bound.setdefault(uid, time.monotonic())
            if pod.get("status", {}).get("phase") == "Running":
                self.started.add(uid)
                self._percent[uid] = percent_of(pod)

    @property
    def running_percent(self) -> int:
        """GPUs of the workers that run, a whole GPU as 100."""
        return sum(self._percent.values())

    @property
    def a_second(self) -> float:
        """Pods bound a second, from the first to the last."""
        times = sorted(self.bound.values())
        return len(times) / (times[-1] - times[0])


def percent_of(pod: Raw) -> int:
    """Return a worker's share of all of its GPUs, a whole GPU as 100."""
    limits = (each.get("resources", {}).get("limits") or {} for each in pod["spec"]["containers"])
    return sum(int(each.get(names.GPU_PERCENT, 0)) for each in limits)
