"""Keeps the GPUNode current and renews the node's Lease, on a thread of its own: an unreachable API server does not affect turns.

A change that others act on is written at once, but at most once a second; figures follow at intervals (see
:mod:`laneway.node_agent.report.changes`). A GPUNode that does not change is not written: the Lease shows that the agent is alive. It
is renewed only while the agent's loop answers and the GPUNode says what the agent knows. Failed writes are retried with back-off.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from laneway.api.gpu_node import GPUNodeStatus
from laneway.api.node_lease import RENEW_SECONDS
from laneway.api.rfc3339 import format_time
from laneway.node_agent.clock import Clock
from laneway.node_agent.report.changes import due
from laneway.node_agent.report.gpu_node_writer import GPUNodeWriter, LeaseHolder, MissingError, WriteError

_log = logging.getLogger(__name__)


class GPUNodePublisher:
    """Writes the status returned by ``status``."""

    MIN_INTERVAL_SECONDS = 1.0
    """Minimum interval between two writes."""

    MAX_BACKOFF_SECONDS = 10.0
    """After an outage of the API server, each agent renews its Lease within about this."""

    def __init__(
        self,
        writer: GPUNodeWriter,
        lease: LeaseHolder,
        status: Callable[[], GPUNodeStatus],
        clock: Clock,
        interval_seconds: float,
    ) -> None:
        self._writer = writer
        self._lease = lease
        self._status = status
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._changed = threading.Event()
        self._stopped = threading.Event()
        self._object_exists = False
        self._lost = threading.Event()
        self._written: GPUNodeStatus | None = None
        self._observed_at: str | None = None
        self._written_seconds = 0.0
        self._renewed_seconds = -RENEW_SECONDS
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
        """Request a look at the status. Cheap; may be called from any thread."""
        self._changed.set()

    def seen(self, observed_at: str | None) -> None:
        """Compare the API server's GPUNode with what was written, and write it again if they differ: it was deleted, or restored
        from a backup. May be called from any thread.

        Args:
            observed_at: of its status; None: there is no object, or it has no status.
        """
        if observed_at != self._observed_at:
            self._lost.set()
            self._changed.set()

    def publish(self) -> None:
        """Write the status if that is due, then renew the Lease if that is due.

        Raises:
            WriteError: the API server rejected one of them.
            TimeoutError: the agent does not answer.
        """
        status, now_seconds = self._status(), self._clock.monotonic()
        if self._lost.is_set():
            self._lost.clear()
            self._object_exists, self._written = False, None
        if due(self._written, status, now_seconds - self._written_seconds, self._interval_seconds):
            self._write(status)
            self._written, self._written_seconds = status, now_seconds
        if now_seconds - self._renewed_seconds >= RENEW_SECONDS:
            self._lease.renew()
            self._renewed_seconds = now_seconds

    def _write(self, status: GPUNodeStatus) -> None:
        if not self._object_exists:
            self._writer.apply_object()
            self._object_exists = True
        observed_at = format_time(self._clock.realtime())
        try:
            self._writer.apply_status(status.model_copy(update={"observed_at": observed_at}).to_json())
            self._observed_at = observed_at
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
                self._changed.wait(max(0.0, self._idle_seconds() - pause_seconds))

    def _idle_seconds(self) -> float:
        """Return how long to wait without a change: until the Lease is to be renewed, or figures may be written."""
        now_seconds = self._clock.monotonic()
        figures_seconds = self._written_seconds + self._interval_seconds - now_seconds
        renew_seconds = self._renewed_seconds + RENEW_SECONDS - now_seconds
        return min(renew_seconds, figures_seconds if figures_seconds > 0 else self._interval_seconds)

    def _attempt(self) -> float:
        """Publish once. Return the minimum pause before the next try."""
        try:
            self.publish()
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
