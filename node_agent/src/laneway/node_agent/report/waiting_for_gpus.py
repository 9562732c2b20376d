"""What a node says while it has no GPUs to offer: a GPUNode that is not ready, with the reason."""

from __future__ import annotations

import logging

from laneway.api.clock_text import to_text
from laneway.node_agent.clock import Clock
from laneway.node_agent.report.node_status import node_status, not_ready
from laneway.node_agent.report.writing import GPUNodeWriter, WriteError

_log = logging.getLogger(__name__)


class NoGPUsPublisher:
    """Writes such a status."""

    def __init__(self, writer: GPUNodeWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock

    def tell(self, reason: str) -> None:
        """Write why there are no GPUs; a failure to write is logged, as the next try comes soon."""
        now_seconds = self._clock.realtime()
        status = node_status((), (not_ready("NoGPUs", reason[:1024], now_seconds),))
        status = status.model_copy(update={"observed_at": to_text(now_seconds)})
        try:
            self._writer.apply_object()
            self._writer.apply_status(status.to_json())
        except WriteError as error:
            _log.warning("the GPUNode could not be written: %s", error)
