"""The listening thread: connects to the agent, serves the session, and reconnects after the agent is lost."""

from __future__ import annotations

import logging
import select
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.session.channel import ChannelClosedError
from laneway.client.session.handshake import NoAgentError, open_session
from laneway.client.session.wakeup import WakeupPipe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laneway.client.session.session import Session

log = logging.getLogger("laneway.client")

FIRST_RETRY_SECONDS: Final = 0.2
RETRY_FACTOR: Final = 1.2
MAX_RETRY_SECONDS: Final = 5.0
STOP_SECONDS: Final = 0.5
"""How long the end of the process may wait for the thread."""


class AgentConnection:
    """Keeps a session with the agent open for as long as the process runs."""

    def __init__(
        self,
        path: str,
        hello: Callable[[], Mapping[str, Any]],
        attach: Callable[[Session], None],
        detach: Callable[[], None],
        get_timeout: Callable[[], Optional[float]],
    ) -> None:
        """Prepares the connection; `start` opens it.

        Args:
            path: the agent's socket.
            hello: returns the fields of the hello message; called for each attempt.
            attach: called in the listening thread with each new session.
            detach: called in the listening thread when that session has ended.
            get_timeout: returns how long the thread may sleep; called before each sleep and after each
                `wake`.
        """
        self._path = path
        self._hello = hello
        self._attach = attach
        self._detach = detach
        self._get_timeout = get_timeout
        self._wakeup = WakeupPipe()
        self._stopping = False
        self._warned = False
        self._first_attempt_done = threading.Event()
        self._session: Optional[Session] = None
        self._thread = threading.Thread(target=self._run, name="laneway", daemon=True)

    def start(self, wait_seconds: float) -> None:
        """Starts the thread and waits for the outcome of its first attempt. Without a socket that is
        immediate."""
        self._thread.start()
        self._first_attempt_done.wait(wait_seconds)

    def wake(self) -> None:
        """Makes the thread call `get_timeout` again. Safe in a signal handler."""
        self._wakeup.wake()

    def stop(self) -> None:
        """Sends goodbye and ends the thread."""
        self._stopping = True
        session = self._session
        if session is not None:
            session.leave()
        self._wakeup.wake()
        self._thread.join(STOP_SECONDS)

    def forget(self) -> None:
        """Closes the inherited descriptors in a forked child, where the thread does not exist."""
        self._stopping = True
        if self._session is not None:
            self._session.socket.forget()
        self._wakeup.close()

    def _run(self) -> None:
        retry_seconds = FIRST_RETRY_SECONDS
        while not self._stopping:
            began_seconds = time.monotonic()
            session = self._connect()
            if session is not None:
                self._serve(session)
            if time.monotonic() - began_seconds > MAX_RETRY_SECONDS:
                retry_seconds = FIRST_RETRY_SECONDS
            self._sleep(retry_seconds)
            retry_seconds = min(RETRY_FACTOR * retry_seconds, MAX_RETRY_SECONDS)

    def _connect(self) -> Optional[Session]:
        try:
            return open_session(self._path, self._hello())
        except NoAgentError as absent:
            log.debug("no agent: %s", absent)
        except ChannelClosedError as refused:
            self._warn_once(f"no session with the agent; the script runs without turns: {refused}")
        except Exception as error:
            self._warn_once(f"no session with the agent; the script runs without turns: {error!r}")
        self._first_attempt_done.set()
        return None

    def _warn_once(self, message: str) -> None:
        """Logs a warning the first time and debug messages after that, so as not to clutter the script's
        output."""
        log.log(logging.DEBUG if self._warned else logging.WARNING, message)
        self._warned = True

    def _serve(self, session: Session) -> None:
        self._session = session
        try:
            self._attach(session)
            self._first_attempt_done.set()
            if not self._stopping:
                session.socket.listen(self._wakeup, self._get_timeout)
        finally:
            session.end("the listener ended")
            self._session = None
            self._detach()

    def _sleep(self, seconds: float) -> None:
        timeout_seconds = self._get_timeout()
        poller = select.poll()
        poller.register(self._wakeup, select.POLLIN)
        poller.poll(1000 * (seconds if timeout_seconds is None else max(0.0, min(seconds, timeout_seconds))))
        self._wakeup.clear()
