"""Keeps the GPUNode current, from a thread of its own: an API server that is away costs turns nothing.

A change is written at once, but at most once a second; without a change the status is written every few seconds, because
figures go on and ``observedAt`` says that the agent lives. Failed writes are tried again, ever more slowly.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from laneway.api.clock_text import to_text
from laneway.api.gpu_node import GPUNodeStatus
from laneway.node_agent.clock import Clock
from laneway.node_agent.report.writing import GPUNodeWriter, MissingError, WriteError

_log = logging.getLogger(__name__)


class GPUNodePublisher:
    """Writes what ``status`` returns."""

    LEAST_SECONDS = 1.0
    """Between two writes."""

    MOST_BACKOFF_SECONDS = 30.0

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
        self._object_is_there = False
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="gpu-node-publisher", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """End; a write that is under way is not waited for."""
        self._stopped.set()
        self._changed.set()

    def changed(self) -> None:
        """Something is to be told at once. Cheap; may be called from any thread."""
        self._changed.set()

    def write(self) -> None:
        """Write the status as it is now.

        Raises:
            WriteError: the API server did not take it.
        """
        if not self._object_is_there:
            self._writer.apply_object()
            self._object_is_there = True
        status = self._status().model_copy(update={"observed_at": to_text(self._clock.realtime())})
        try:
            self._writer.apply_status(status.to_json())
        except MissingError:
            self._object_is_there = False
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
        """Write, and return how long to pause at least."""
        try:
            self.write()
        except Exception as error:
            self._failures += 1
            pause_seconds = min(self.MOST_BACKOFF_SECONDS, 2.0 ** min(self._failures - 1, 10))
            pause_seconds *= random.uniform(0.75, 1.25)  # so that nodes do not come back all at once
            if isinstance(error, WriteError):
                _log.warning(
                    "the GPUNode could not be written (try %d, next in %.0f s): %s",
                    self._failures,
                    pause_seconds,
                    error,
                )
            else:
                _log.exception("writing the GPUNode failed")
            return pause_seconds
        if self._failures:
            _log.info("the GPUNode is written again, after %d failures", self._failures)
        self._failures = 0
        return self.LEAST_SECONDS
