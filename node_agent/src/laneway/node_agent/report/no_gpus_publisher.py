"""Publishes a GPUNode that is not ready, with the reason, while the node has no GPUs."""

from __future__ import annotations

import logging
import math
from typing import Any, Final

from laneway.api.rfc3339 import format_time
from laneway.node_agent.clock import Clock
from laneway.node_agent.report.gpu_node_writer import GPUNodeWriter, LeaseHolder, WriteError
from laneway.node_agent.report.node_status import node_status, not_ready

_log = logging.getLogger(__name__)


REPAIR_SECONDS: Final = 300.0
"""The GPUNode is written again after this time, as it may have been deleted, edited, or restored from a backup. The same status
once more changes nothing on the API server where it is still there. (No watch: nodes without GPUs should cost little.)"""


class NoGPUsPublisher:
    """Writes a status without GPUs, and renews the node's Lease."""

    def __init__(self, writer: GPUNodeWriter, lease: LeaseHolder, clock: Clock) -> None:
        self._writer = writer
        self._lease = lease
        self._clock = clock
        self._reason: str | None = None
        self._status: dict[str, Any] = {}
        self._written_seconds = -math.inf

    def publish(self, reason: str) -> None:
        """Publish why there are no GPUs, if that is new or was written long ago. A failure is logged; the next try follows soon."""
        if reason != self._reason:
            self._reason, self._status = reason, self._status_of(reason)
            self._written_seconds = -math.inf
        now_seconds = self._clock.monotonic()
        try:
            if now_seconds - self._written_seconds >= REPAIR_SECONDS:
                self._writer.apply_object()
                self._writer.apply_status(self._status)
                self._written_seconds = now_seconds
            self._lease.renew()
        except WriteError as error:
            _log.warning("cannot write GPUNode error=%r", str(error))

    def _status_of(self, reason: str) -> dict[str, Any]:
        now_seconds = self._clock.realtime()
        status = node_status((), (not_ready("NoGPUs", reason[:1024], now_seconds),))
        return status.model_copy(update={"observed_at": format_time(now_seconds)}).to_json()
