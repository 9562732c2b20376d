"""Waits for XIDs on its own thread: the driver's call blocks until one comes, and sometimes forever."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from laneway.node_agent.gpus.protocol import GPUError, GPUSource, XidEvent

_log = logging.getLogger(__name__)
_WAIT_SECONDS = 1.0
_PAUSE_SECONDS = 5.0
"""After a failure. A GPU that fell off the bus makes each wait fail at once."""


class XidListener:
    """Passes every XID to ``on_xids``, on its own thread."""

    def __init__(self, source: GPUSource, on_xids: Callable[[tuple[XidEvent, ...]], None]) -> None:
        self._source = source
        self._on_xids = on_xids
        self._stopped = threading.Event()
        self._last_error = ""
        self._thread = threading.Thread(target=self._run, name="xid-listener", daemon=True)

    def start(self) -> None:
        """Start listening."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening. A call in progress is not waited for."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                events = self._source.wait_for_xids(_WAIT_SECONDS)
                if events:
                    self._on_xids(events)
            except GPUError as error:
                self._log_error(str(error))
                self._stopped.wait(_PAUSE_SECONDS)
                continue
            except Exception:
                _log.exception("waiting for XIDs or applying them failed, will retry")
                self._stopped.wait(_PAUSE_SECONDS)
                continue
            self._last_error = ""

    def _log_error(self, text: str) -> None:
        if text != self._last_error:
            _log.warning("cannot wait for XIDs, GPUs are still checked error=%r", text)
        self._last_error = text
