"""Ensures one agent per node: two would grant the turns of one lane twice."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from pathlib import Path

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 0.2


class AgentLock:
    """A file lock that lasts as long as the process. The kernel releases it however the process ends."""

    def __init__(self, folder: Path) -> None:
        """Prepare the lock.

        Raises:
            OSError: the folder cannot be written to.
        """
        self._descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def acquire(self, stopped: threading.Event) -> bool:
        """Wait until no other agent holds the lock. Return whether it was acquired before ``stopped`` was
        set."""
        logged = False
        while not stopped.is_set():
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not logged:
                    _log.warning("another agent runs on this node, waiting for it to end")
                    logged = True
                stopped.wait(_PAUSE_SECONDS)
            else:
                return True
        return False
