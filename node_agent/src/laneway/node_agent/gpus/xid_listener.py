"""Waits for XIDs in a thread of its own: the driver's call blocks until one comes, and sometimes for ever."""

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
    """Hands every XID to ``heard``, on its own thread."""

    def __init__(self, source: GPUSource, heard: Callable[[tuple[XidEvent, ...]], None]) -> None:
        self._source = source
        self._heard = heard
        self._stopped = threading.Event()
        self._complaint = ""
        self._thread = threading.Thread(target=self._run, name="xid-listener", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Listen no longer; a call that is under way is not waited for."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                events = self._source.wait_for_xids(_WAIT_SECONDS)
            except GPUError as error:
                self._complain(str(error))
                self._stopped.wait(_PAUSE_SECONDS)
                continue
            except Exception:
                _log.exception("waiting for XIDs failed; it is tried again")
                self._stopped.wait(_PAUSE_SECONDS)
                continue
            self._complaint = ""
            if events:
                self._heard(events)

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            _log.warning("XIDs cannot be waited for; GPUs are still looked at: %s", text)
        self._complaint = text
