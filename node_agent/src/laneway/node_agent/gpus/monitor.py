"""Watches the GPUs from a thread of its own: how they do, and whether they are healthy.

A GPU that does not answer as it should is unhealthy, with the reason; one that answers again is healthy again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from laneway.node_agent.gpus.deadline import DeadlineCaller
from laneway.node_agent.gpus.protocol import GPUError, GPUFacts, GPUReading, GPUSource

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GPUHealth:
    """What was seen of a GPU last."""

    healthy: bool = True
    reason: str = ""
    reading: GPUReading | None = None
    """None while it does not answer."""


class GPUMonitor:
    """Looks at all GPUs every few seconds; a GPU whose driver call hangs does not keep it from the others for long."""

    def __init__(
        self,
        source: GPUSource,
        gpus: tuple[GPUFacts, ...],
        health_changed: Callable[[], None],
        interval_seconds: float = 2.0,
        deadline_seconds: float = 5.0,
    ) -> None:
        self._source = source
        self._health_changed = health_changed
        self._interval_seconds = interval_seconds
        self._callers: dict[str, DeadlineCaller[GPUReading]] = {
            gpu.uuid: DeadlineCaller(f"GPU {gpu.uuid}", deadline_seconds) for gpu in gpus
        }
        self._health: Mapping[str, GPUHealth] = {gpu.uuid: GPUHealth() for gpu in gpus}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-monitor", daemon=True)

    def health(self, uuid: str) -> GPUHealth:
        """Return what was seen of a GPU last. May be called from any thread."""
        return self._health[uuid]

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()

    def look(self) -> None:
        """Look at every GPU once, and tell if the health of one has changed."""
        before = self._health
        self._health = {uuid: self._look_at(uuid) for uuid in before}
        changed = False
        for uuid, health in self._health.items():
            if (health.healthy, health.reason) == (before[uuid].healthy, before[uuid].reason):
                continue
            changed = True
            if health.healthy:
                _log.info("GPU %s is healthy again", uuid)
            else:
                _log.error("GPU %s is unhealthy: %s", uuid, health.reason)
        if changed:
            self._health_changed()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.look()
            except Exception:
                _log.exception("looking at the GPUs failed; it is tried again")
            self._stopped.wait(self._interval_seconds)

    def _look_at(self, uuid: str) -> GPUHealth:
        try:
            reading = self._callers[uuid].call(lambda: self._source.read(uuid))
        except GPUError as error:
            return GPUHealth(healthy=False, reason=str(error))
        return GPUHealth(reading=reading)
