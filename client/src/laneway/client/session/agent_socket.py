"""The connection of a session: who sends, who reads, and who waits for what.

**The listening thread reads the socket**, except while the training thread waits for a grant. Then the
training thread reads, so that no other thread has to be woken between the agent's grant and the iteration.
It waits for the wakes of other processes of its lane as well (`direct_wakes.py`).
"""

from __future__ import annotations

import logging
import select
import threading
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.session.channel import ChannelClosedError, encode
from laneway.client.session.direct_wakes import DirectWakes
from laneway.client.session.keepalive import Keepalive
from laneway.client.session.wakeup import WakeupPipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.session.channel import Channel

log = logging.getLogger("laneway.client")

PING: Final = encode("ping")


class AgentSocket:
    """An open connection. It ends by itself where the agent closes it, breaks the protocol or hangs."""

    def __init__(self, channel: Channel, session: str, on_message: Callable[[dict[str, Any]], None]) -> None:
        """Takes over a channel after the handshake.

        Args:
            channel: the connection.
            session: the session's name, for the log.
            on_message: called with each message, one at a time, in the thread that reads it.
        """
        self.closed = False
        self.reading = threading.Lock()
        """Held while a message or a wake is handled."""
        self.wakes = DirectWakes()
        self.keepalive = Keepalive()
        """Detects an agent that hangs; active where the agent answers pings."""
        self._channel = channel
        self._session = session
        self.on_message = on_message
        self._epoll = select.epoll()
        self._epoll.register(channel, select.EPOLLIN)
        self._wakeup = WakeupPipe()
        """Wakes the thread that waits for a turn."""
        self._listener_wakeup: Optional[WakeupPipe] = None
        self.wakes.watch(channel.fileno())
        self.wakes.watch(self._wakeup.fileno())

    # --- the training thread ---

    def start_waiting(self) -> None:
        """Makes this thread the one that reads, until `stop_waiting`.

        Raises:
            OSError, ValueError: the connection has ended.
        """
        self.keepalive.start_waiting()
        self._epoll.modify(self._channel, 0)

    def wait(self, seconds: Optional[float], on_wake: Callable[[int], bool]) -> None:
        """Handles the agent's next message, a wake or an interruption; closes if the agent hangs.

        Args:
            seconds: how long to wait at most; None for no limit.
            on_wake: called with the number of a wake that was signalled. Returns whether a turn has begun with
                it: then the signal is read at the turn's end, because the iteration comes first.
        """
        keepalive = self.keepalive
        if keepalive.should_ping():
            self.send(PING)
        seconds = keepalive.until_ping(seconds)
        for descriptor in self.wakes.poll(seconds):
            wake = self.wakes.wake_of(descriptor)
            if wake:
                if not on_wake(wake):
                    self.wakes.clear(descriptor)
            elif descriptor == self._wakeup.fileno():
                self._wakeup.clear()
            else:
                # Messages after a grant are left to the listening thread, so that the iteration begins first.
                self.pump(most=1)
        if keepalive.has_timed_out():
            # If this process itself was suspended, the answer may be waiting in the socket.
            self.pump(most=1)
            if keepalive.has_timed_out():
                self.close("the agent did not answer pings")

    def stop_waiting(self) -> None:
        """Makes the listening thread read again."""
        try:
            self._epoll.modify(self._channel, select.EPOLLIN)
        except (OSError, ValueError):
            return  # closed in the meantime

    # --- the listening thread ---

    def listen(self, wakeup: WakeupPipe, get_timeout: Callable[[], Optional[float]]) -> None:
        """Handles messages until the connection ends.

        Args:
            wakeup: wakes the listener, which then calls `get_timeout` again.
            get_timeout: called before each wait; returns how long to wait at most, None for no limit.
        """
        try:
            self._epoll.register(wakeup, select.EPOLLIN)
            self._listener_wakeup = wakeup
            while not self.closed:
                seconds = get_timeout()
                self._epoll.poll(-1 if seconds is None else max(0.0, seconds))
                wakeup.clear()
                self.pump()
        except (OSError, ValueError) as error:
            self.close(f"listening failed: {error}")

    # --- any thread ---

    def interrupt(self) -> None:
        """Makes a waiting thread return from `wait`. Safe in a signal handler."""
        self._wakeup.wake()

    def pump(self, most: Optional[int] = None) -> None:
        """Handles the messages that have arrived, at most `most` of them."""
        acted_on = 0
        with self.reading:
            try:
                while most is None or acted_on < most:
                    message = self._channel.receive()
                    if message is None:
                        return
                    self.keepalive.on_packet()
                    self.on_message(message)
                    acted_on += 1
            except ChannelClosedError as closed:
                self.close(str(closed))

    def send(self, packet: bytes) -> None:
        """Sends a packet, unless the connection has ended."""
        if self.closed:
            return
        try:
            self._channel.send(packet)
        except ChannelClosedError as closed:
            self.close(str(closed))

    def close(self, reason: str) -> None:
        """Ends the connection; threads that wait return."""
        if not self.closed:
            log.debug("session %s has ended: %s", self._session, reason)
            self.closed = True
        self._channel.close()
        # Closing a descriptor removes it from an epoll set without waking the threads that wait.
        self._wakeup.wake()
        if self._listener_wakeup is not None:
            self._listener_wakeup.wake()

    def forget(self) -> None:
        """Closes the inherited descriptors in a forked child; the parent's connection continues."""
        self.closed = True
        self._channel.forget()
        self._epoll.close()
        self.wakes.close()
        self._wakeup.close()
