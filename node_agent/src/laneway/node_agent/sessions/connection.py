"""One connection: packets in, packets out, and what happens when either goes wrong."""

from __future__ import annotations

import array
import socket
from collections.abc import Sequence
from typing import Protocol

from laneway.node_agent.clock import Clock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.orders.standing import OrderWord
from laneway.node_agent.quiet_log import QuietLog
from laneway.node_agent.sessions.allowance import Allowance
from laneway.node_agent.sessions.identity import Peer
from laneway.node_agent.sessions.limits import Limits
from laneway.node_agent.sessions.packets import MAX_PACKET_BYTES, Packet, PacketError, decode, encode
from laneway.node_agent.sessions.shared_page import SharedPage

_buffer = bytearray(MAX_PACKET_BYTES + 1)
_view = memoryview(_buffer)


class RefusedError(Exception):
    """A packet that is well formed and not acceptable now; the text says why."""


class Receiver(Protocol):
    """Who deals with what comes over a connection."""

    def received(self, connection: Connection, packet: Packet) -> None:
        """Deal with a packet.

        Raises:
            RefusedError: it is not acceptable now; the client is told and the connection closed.
        """
        ...

    def closed(self, connection: Connection) -> None:
        """The connection is over."""
        ...


class Connection:
    """A process of a container that connected; the agent's line to it.

    A failure while sending closes the connection a moment later, not inside the call: whoever sends is in the middle of
    a decision.
    """

    def __init__(
        self,
        connected: socket.socket,
        peer: Peer,
        pidfd: int | None,
        receiver: Receiver,
        loop: EventLoop,
        clock: Clock,
        limits: Limits,
        packets: Allowance,
        log: QuietLog,
        who: str,
    ) -> None:
        self.peer = peer
        self.pidfd = pidfd
        """Becomes readable when the process ends; whoever takes it sets this to None."""

        self.who = who
        self.page: SharedPage | None = None
        self._socket = connected
        self._descriptor = connected.fileno()
        self._receiver = receiver
        self._loop = loop
        self._limits = limits
        self._log = log
        self._open = True
        self._asked = False
        """The client was asked for its turn."""
        self._told = False
        """It was sent a packet that says so."""
        self._packets = packets
        connected.setblocking(False)
        connected.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDBUF, limits.queue_bytes // 2
        )  # the kernel doubles it
        loop.add_reader(self._descriptor, self._readable)
        self._hello_timer = loop.call_at(
            clock.monotonic() + limits.hello_seconds, lambda: self.refuse("no hello came in time", "no hello")
        )

    @property
    def is_open(self) -> bool:
        """Whether packets can still be sent and received."""
        return self._open

    def welcome(self, packet: bytes, page: SharedPage) -> None:
        """Send the answer to a hello, with the page."""
        self._hello_timer.cancel()
        self.page = page
        self._send(packet, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [page.descriptor]))])
        page.close_descriptor()

    def grant(self, turn: int) -> None:
        """Tell the client that it holds a turn."""
        self._asked = self._told = False
        self._page().show_turn(turn)
        self._send(b'{"type":"grant","turn":%d}' % turn)

    def ask_yield(self, turn: int) -> None:
        """Ask the client to release, which pays for the packets that this takes. May be called again.

        Inside an iteration the client reads the page at its next boundary, where a packet would only have woken it up.
        """
        page = self._page()
        page.show_yield()
        if not self._asked:
            self._asked = True
            self._packets.give(self._limits.packets_per_yield)
        if not self._told and not page.inside:
            self._told = True
            self._send(b'{"type":"yield","turn":%d}' % turn)

    def excuse(self) -> None:
        """Pay for a release that the page asked for by its time. One that comes unasked is paid for by nobody: whoever takes turns
        and gives them back at once is held to the packets that everybody has."""
        self._packets.give(self._limits.packets_per_yield)

    def revoke(self, turn: int, reason: str) -> None:
        """Tell the client that it holds no turn any more."""
        self._page().show_turn(0)
        self._send(encode("revoke", turn=turn, reason=reason))

    def answer_ping(self) -> None:
        """Tell the client that the agent lives."""
        self._send(b'{"type":"pong"}')

    def order(self, word: OrderWord) -> None:
        """Tell the client to pause, resume, offload or restore."""
        self._page().show_paused(word != "resume")
        self._send(encode(word))

    def refuse(self, reason: str, kind: str = "refused") -> None:
        """Tell the client why, and close; of one kind, not every case is logged."""
        if not self._open:
            return
        self._log.warning(kind, f"{self.who}: process {self.peer.pid} is cut off: {reason}")
        self._send(encode("error", reason=reason))
        self.close()

    def close(self) -> None:
        """End the connection, once."""
        if not self._open:
            return
        self._open = False
        self._hello_timer.cancel()
        self._loop.remove_reader(self._descriptor)
        self._socket.close()
        self._receiver.closed(self)

    def read_last_words(self) -> None:
        """Take what a process said just before it ended, as far as one that keeps to the protocol has something to say then."""
        for _ in range(self._limits.last_words):
            if self._open:
                self._readable()

    def _page(self) -> SharedPage:
        assert self.page is not None, "turns are given to sessions that were welcomed"
        return self.page

    def _readable(self) -> None:
        """Take one packet: a client that floods gets no more of the loop's time than the others."""
        try:
            length = self._socket.recv_into(_buffer)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            length = 0
        if length == 0:
            self.close()
            return
        if not self._packets.take(1 + length // self._limits.packet_bytes):
            self.refuse(
                f"more than {self._limits.packets_per_second} packets a second that no yield asked for",
                "flood",
            )
            return
        try:
            self._receiver.received(self, decode(bytes(_view[:length])))
        except PacketError as error:
            self.refuse(str(error), "not of the protocol")
        except RefusedError as error:
            self.refuse(str(error))
        except Exception:
            # A packet that trips the agent must not trip it again and again over the same connection.
            self._log.warning("fault", f"{self.who}: a packet could not be dealt with", traceback=True)
            self.refuse("the agent could not deal with that packet", "fault")

    def _send(self, packet: bytes, ancillary: Sequence[tuple[int, int, array.array[int]]] = ()) -> None:
        if not self._open:
            return
        try:
            if ancillary:
                self._socket.sendmsg([packet], ancillary, socket.MSG_NOSIGNAL)
            else:
                self._socket.send(packet, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            self._log.warning("full", f"{self.who}: process {self.peer.pid} does not read; closing")
            self._loop.post(self.close)
        except OSError:
            self._loop.post(self.close)
