"""Waits while the API server cannot be reached, and says so once if it lasts."""

from __future__ import annotations

import logging
import math
import threading
import time

from laneway.api.retries import RetryDelays
from laneway.sdk.errors import ForbiddenError, UnreachableError

_SAID_AFTER_SECONDS = 5.0
_REFUSED_SECONDS = 30.0
"""How long a follower outlasts refusals: an API server that starts does not know all rights at once."""

logger = logging.getLogger(__name__)


class Outage:
    """Whether the API server is out of reach. All that follow something through one connection share it, and so its messages."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began_seconds: float | None = None
        self._said = False

    def goes_on(self, error: UnreachableError | ForbiddenError) -> None:
        """Note a failure; say it if the first one was some seconds ago. Python writes warnings to standard error by default."""
        with self._lock:
            now_seconds = time.monotonic()
            self._began_seconds = now_seconds if self._began_seconds is None else self._began_seconds
            if not self._said and now_seconds - self._began_seconds >= _SAID_AFTER_SECONDS:
                self._said = True
                logger.warning("%s; trying again", error)

    def is_over(self) -> None:
        """Note an answer; say that it came if the failure was said."""
        with self._lock:
            self._began_seconds = None
            if self._said:
                self._said = False
                logger.warning("connected again")


class Retries:
    """The tries of one follower: a watch, or the log of one worker."""

    def __init__(self, outage: Outage, closed: threading.Event, deadline_seconds: float = math.inf) -> None:
        """Wait at most until it is closed, or a time of ``time.monotonic`` has come."""
        self._outage = outage
        self._closed = closed
        self._deadline_seconds = deadline_seconds
        self._delays = RetryDelays()
        self._began_seconds: float | None = None
        self._refused_seconds: float | None = None
        self._has_succeeded = False

    @property
    def failing_seconds(self) -> float:
        """How long each try has failed; 0 after one that succeeded."""
        return 0.0 if self._began_seconds is None else time.monotonic() - self._began_seconds

    def wait(self, error: UnreachableError | ForbiddenError) -> None:
        """Wait after a try that failed.

        Raises:
            ForbiddenError: no try has succeeded, or the last ones were refused for half a minute.
        """
        now_seconds = time.monotonic()
        self._began_seconds = now_seconds if self._began_seconds is None else self._began_seconds
        if isinstance(error, ForbiddenError):
            self._refused_seconds = self._refused_seconds or now_seconds
            if not self._has_succeeded or now_seconds - self._refused_seconds >= _REFUSED_SECONDS:
                raise error
        else:
            self._refused_seconds = None
        self._outage.goes_on(error)
        self._closed.wait(max(0.0, min(self._delays.next_seconds(), self._deadline_seconds - now_seconds)))

    def succeeded(self) -> None:
        """Note that a try has succeeded."""
        self._began_seconds = self._refused_seconds = None
        self._has_succeeded = True
        self._outage.is_over()
