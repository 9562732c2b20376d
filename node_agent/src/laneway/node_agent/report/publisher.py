"""Keeps the GPUNode current on its own thread, so that an unreachable API server does not affect turns.

A change is written at once, but at most once a second. Without a change the status is written every few
seconds, because counters change and ``observedAt`` shows that the agent is alive. Failed writes are retried
with back-off.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from laneway.api.gpu_node import GPUNodeStatus
from laneway.api.rfc3339 import format_time
from laneway.node_agent.clock import Clock
from laneway.node_agent.report.gpu_node_writer import GPUNodeWriter, MissingError, WriteError

_log = logging.getLogger(__name__)


class GPUNodePublisher:
    """Writes the status returned by ``status``."""

    MIN_INTERVAL_SECONDS = 1.0
    """Minimum interval between two writes."""

    MAX_BACKOFF_SECONDS = 30.0

    def __init__(
        self,
        writer: GPUNodeWriter,
        status: Callable[[], GPUNodeStatus],
        clock: Clock,
        interval_seconds: float,
    ) -> None:
        self._writer = writer
        self._status = status
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._changed = threading.Event()
        self._stopped = threading.Event()
        self._object_exists = False
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="gpu-node-publisher", daemon=True)

    def start(self) -> None:
        """Start writing."""
        self._thread.start()

    def stop(self) -> None:
        """Stop. A write in progress is not waited for."""
        self._stopped.set()
        self._changed.set()

    def changed(self) -> None:
        """Request a write. Cheap; may be called from any thread."""
        self._changed.set()

    def write(self) -> None:
        """Write the current status.

        Raises:
            WriteError: the API server rejected it.
        """
        if not self._object_exists:
            self._writer.apply_object()
            self._object_exists = True
        status = self._status().model_copy(update={"observed_at": format_time(self._clock.realtime())})
        try:
            self._writer.apply_status(status.to_json())
        except MissingError:
            self._object_exists = False
            raise

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._changed.clear()
            pause_seconds = self._attempt()
            if self._stopped.wait(pause_seconds):
                return
            if not self._failures:
                self._changed.wait(max(0.0, self._interval_seconds - pause_seconds))

    def _attempt(self) -> float:
        """Write once. Return the minimum pause before the next write."""
        try:
            self.write()
        except Exception as error:
            self._failures += 1
            pause_seconds = min(self.MAX_BACKOFF_SECONDS, 2.0 ** min(self._failures - 1, 10))
            pause_seconds *= random.uniform(0.75, 1.25)  # so that nodes do not retry in step
            if isinstance(error, WriteError):
                _log.warning(
                    "cannot write GPUNode try=%d retry_seconds=%.0f error=%r",
                    self._failures,
                    pause_seconds,
                    str(error),
                )
            else:
                _log.exception("writing the GPUNode failed")
            return pause_seconds
        if self._failures:
            _log.info("GPUNode written again failures=%d", self._failures)
        self._failures = 0
        return self.MIN_INTERVAL_SECONDS
