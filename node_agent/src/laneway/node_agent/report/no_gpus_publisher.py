"""Publishes a GPUNode that is not ready, with the reason, while the node has no GPUs."""

from __future__ import annotations

import logging

from laneway.api.rfc3339 import format_time
from laneway.node_agent.clock import Clock
from laneway.node_agent.report.gpu_node_writer import GPUNodeWriter, LeaseHolder, WriteError
from laneway.node_agent.report.node_status import node_status, not_ready

_log = logging.getLogger(__name__)


class NoGPUsPublisher:
    """Writes a status without GPUs, and renews the node's Lease."""

    def __init__(self, writer: GPUNodeWriter, lease: LeaseHolder, clock: Clock) -> None:
        self._writer = writer
        self._lease = lease
        self._clock = clock
        self._published: str | None = None

    def publish(self, reason: str) -> None:
        """Publish why there are no GPUs, unless that is published already. A failure is logged; the next try follows soon."""
        try:
            if reason != self._published:
                self._write(reason)
                self._published = reason
            self._lease.renew()
        except WriteError as error:
            _log.warning("cannot write GPUNode error=%r", str(error))

    def _write(self, reason: str) -> None:
        now_seconds = self._clock.realtime()
        status = node_status((), (not_ready("NoGPUs", reason[:1024], now_seconds),))
        status = status.model_copy(update={"observed_at": format_time(now_seconds)})
        self._writer.apply_object()
        self._writer.apply_status(status.to_json())
