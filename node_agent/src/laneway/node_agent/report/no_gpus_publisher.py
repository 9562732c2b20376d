"""Publishes a GPUNode that is not ready, with the reason, while the node has no GPUs."""

from __future__ import annotations

import logging

from laneway.api.rfc3339 import format_time
from laneway.node_agent.clock import Clock
from laneway.node_agent.report.gpu_node_writer import GPUNodeWriter, WriteError
from laneway.node_agent.report.node_status import node_status, not_ready

_log = logging.getLogger(__name__)


class NoGPUsPublisher:
    """Writes a status without GPUs."""

    def __init__(self, writer: GPUNodeWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    def publish(self, reason: str) -> None:
        """Publish why there are no GPUs. A failure is logged; the next try follows soon."""
        now_seconds = self._clock.realtime()
        status = node_status((), (not_ready("NoGPUs", reason[:1024], now_seconds),))
        status = status.model_copy(update={"observed_at": format_time(now_seconds)})
        try:
            self._writer.apply_object()
            self._writer.apply_status(status.to_json())
        except WriteError as error:
            _log.warning("cannot write GPUNode error=%r", str(error))
