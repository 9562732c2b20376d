"""The listening thread: connects, listens, and when the agent goes, keeps trying until there is one again."""

from __future__ import annotations

import logging
import select
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.bell import Bell
from laneway.client.channel import ChannelClosedError
from laneway.client.handshake import NoAgentError, open_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from laneway.client.session import Session

log = logging.getLogger("laneway.client")

FIRST_RETRY_SECONDS: Final = 0.2
RETRY_FACTOR: Final = 1.2
LONGEST_RETRY_SECONDS: Final = 5.0
STOP_SECONDS: Final = 0.5
"""How long the end of the process may wait for the thread."""


class Link:
    """Keeps a session with the agent for as long as the process runs."""

    def __init__(
        self,
        path: str,
        hello: Callable[[], Mapping[str, Any]],
        attach: Callable[[Session], None],
        detach: Callable[[], None],
        patience: Callable[[], Optional[float]],
    ) -> None:
        """Makes the link; `start` starts it.

        Args:
            path: the agent's socket.
            hello: what to introduce the process with; asked at each attempt.
            attach: called in the listening thread with each new session.
            detach: called there when it is over.
            patience: how long the thread may sleep; called before each sleep and after each `wake`.
        """
        self._path = path
        self._hello = hello
        self._attach = attach
        self._detach = detach
        self._patience = patience
        self._bell = Bell()
        self._stopping = False
        self._complained = False
        self._tried = threading.Event()
        self._session: Optional[Session] = None
        self._thread = threading.Thread(target=self._run, name="laneway", daemon=True)

    def start(self, wait_seconds: float) -> None:
        """Starts the thread and waits until its first attempt has succeeded or failed, which takes no time without a socket."""
        self._thread.start()
        self._tried.wait(wait_seconds)

    def wake(self) -> None:
        """Lets the thread ask for its patience again; safe in a signal handler."""
        self._bell.ring()

    def stop(self) -> None:
        """Says goodbye and ends the thread."""
        self._stopping = True
        session = self._session
        if session is not None:
            session.leave()
        self._bell.ring()
        self._thread.join(STOP_SECONDS)

    def forget(self) -> None:
        """In a forked child, where the thread is not: gives up the copies of its descriptors."""
        self._stopping = True
        if self._session is not None:
            self._session.forget()
        self._bell.close()

    def _run(self) -> None:
        retry_seconds = FIRST_RETRY_SECONDS
        while not self._stopping:
            began_seconds = time.monotonic()
            session = self._connect()
            if session is not None:
                self._serve(session)
            if time.monotonic() - began_seconds > LONGEST_RETRY_SECONDS:
                retry_seconds = FIRST_RETRY_SECONDS
            self._sleep(retry_seconds)
            retry_seconds = min(RETRY_FACTOR * retry_seconds, LONGEST_RETRY_SECONDS)

    def _connect(self) -> Optional[Session]:
        try:
            return open_session(self._path, self._hello())
        except NoAgentError as absent:
            log.debug("no agent: %s", absent)
        except ChannelClosedError as refused:
            self._complain(f"no session with the agent: {refused}; the script goes on without turns")
        except Exception as fault:
            self._complain(f"no session with the agent: {fault!r}; the script goes on without turns")
        self._tried.set()
        return None

    def _complain(self, message: str) -> None:
        """A warning the first time, then quietly: the script's own output matters more."""
        log.log(logging.DEBUG if self._complained else logging.WARNING, message)
        self._complained = True

    def _serve(self, session: Session) -> None:
        self._session = session
        try:
            self._attach(session)
            self._tried.set()
            if not self._stopping:
                session.listen(self._bell, self._patience)
        finally:
            session.close("the listener ended")
            self._session = None
            self._detach()

    def _sleep(self, seconds: float) -> None:
        patience = self._patience()
        poller = select.poll()
        poller.register(self._bell, select.POLLIN)
        poller.poll(1000 * (seconds if patience is None else max(0.0, min(seconds, patience))))
        self._bell.silence()
