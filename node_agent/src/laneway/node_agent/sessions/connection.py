"""The connection of a session: its packets, its limits, and what happens when they are broken."""

from __future__ import annotations

import array
import errno
import socket
from typing import Protocol

from laneway.node_agent.clock import Clock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.rate_limited_log import RateLimitedLog
from laneway.node_agent.sessions.identity import Peer
from laneway.node_agent.sessions.limits import Limits
from laneway.node_agent.sessions.packet_socket import PacketSocket
from laneway.node_agent.sessions.packets import Packet, PacketError, decode, encode
from laneway.node_agent.sessions.shared_page import SharedPage
from laneway.node_agent.sessions.token_bucket import TokenBucket
from laneway.node_agent.sessions.wake_pipe import WakePipe
from laneway.node_agent.turns.order_state import OrderCommand
from laneway.node_agent.turns.session import ClientChannel


class RefusedError(Exception):
    """A well-formed packet that is not acceptable now; the text says why."""


class Receiver(Protocol):
    """Handles what arrives over a connection."""

    def received(self, connection: Connection, packet: Packet) -> None:
        """Handle a packet.

        Raises:
            RefusedError: the packet is not acceptable now. The client is told and the connection closed.
        """
        ...

    def closed(self, connection: Connection) -> None:
        """Handle the end of the connection."""
        ...


class Connection(PacketSocket):
    """The connection of one process of a container, and the agent's channel to it."""

    def __init__(
        self,
        connected: socket.socket,
        peer: Peer,
        pidfd: int | None,
        receiver: Receiver,
        loop: EventLoop,
        clock: Clock,
        limits: Limits,
        packets: TokenBucket,
        log: RateLimitedLog,
        name: str,
    ) -> None:
        self.peer = peer
        self.pidfd = pidfd
        """Becomes readable when the process ends. Its new owner sets this to None."""

        self.name = name
        self.page: SharedPage | None = None
        self.has_boundaries = True
        """The process reads its page at the boundaries of its iterations. Set to False for a launch gate, which a packet
        has to wake."""

        self._receiver = receiver
        self._limits = limits
        self._log = log
        self._yield_requested = False
        """The client was asked to yield its turn."""
        self._yield_sent = False
        """A packet with that request was sent."""
        self._packets = packets
        super().__init__(connected, loop, loop, limits.queue_bytes)
        self._hello_timer = loop.call_at(
            clock.monotonic() + limits.hello_seconds, lambda: self.refuse("no hello came in time", "no hello")
        )

    def welcome(self, packet: bytes, page: SharedPage) -> None:
        """Send the answer to a hello, with the page."""
        self._hello_timer.cancel()
        self.page = page
        self._send(packet, _rights(page.descriptor))
        page.close_descriptor()

    def grant(self, turn: int) -> None:
        """Tell the client that it holds a turn, unless another process has: then its page is enough."""
        self._yield_requested = self._yield_sent = False
        page = self._page()
        page.write_turn(turn)
        if page.taken != turn:
            self._send(b'{"type":"grant","turn":%d}' % turn)

    def request_yield(self, turn: int) -> None:
        """Ask the client to release, and credit the packets that this takes. May be called again.

        Inside an iteration no packet is sent: the client reads the page at its next boundary, and a packet
        would only wake it up.
        """
        page = self._page()
        page.write_yield()
        if not self._yield_requested:
            self._yield_requested = True
            self._packets.refund(self._limits.packets_per_yield)
        if not self._yield_sent and not (page.inside and self.has_boundaries):
            self._yield_sent = True
            self._send(b'{"type":"yield","turn":%d}' % turn)

    def credit_release(self) -> None:
        """Credit the packets of a release that the page announced by its time.

        An unrequested release gets no credit: a client that takes turns and returns them at once stays within
        its normal packet rate.
        """
        self._packets.refund(self._limits.packets_per_yield)

    def revoke(self, turn: int, reason: str) -> None:
        """Tell the client that it no longer holds a turn. Unless the turn is 0, the agent waits for its
        release, at the next boundary."""
        page = self._page()
        page.write_turn(0)
        if turn:
            page.write_yield()
        self._send(encode("revoke", turn=turn, reason=reason))

    def free_memory(self) -> None:
        """Ask the client to free cached memory, and to say so with a release of turn 0."""
        self._send(b'{"type":"free"}')

    def share_wake(self, wake: int, successor: ClientChannel) -> None:
        """Create a wake with which this client signals another one, and give both their end of it. Without a
        free descriptor there is none, and the agent grants the turns of the two."""
        try:
            ends = WakePipe.create()
        except OSError as error:
            self._log.warning("wake", f"cannot create a wake container={self.name} error={error}")
            return
        successor.give_wake(wake, ends.awaited, signals=False)
        self.give_wake(wake, ends.signalled, signals=True)
        ends.close()

    def give_wake(self, wake: int, descriptor: int, *, signals: bool) -> None:
        """Give the client its end of a wake: it signals another process, or is signalled."""
        self._send(encode("wake", wake=wake, signals=signals), _rights(descriptor))

    def forget_wake(self, wake: int) -> None:
        """Tell the client that the other process of a wake is gone."""
        self._send(encode("forget_wake", wake=wake))

    def answer_ping(self) -> None:
        """Tell the client that the agent is alive."""
        self._send(b'{"type":"pong"}')

    def order(self, command: OrderCommand) -> None:
        """Tell the client to pause, resume, offload or restore."""
        self._page().write_paused(command != "resume")
        self._send(encode(command))

    def refuse(self, reason: str, kind: str = "refused") -> None:
        """Tell the client the reason, and close. The log is rate-limited per kind."""
        if not self._open:
            return
        self._log.warning(
            kind, f"client disconnected container={self.name} pid={self.peer.pid} reason={reason!r}"
        )
        self._send(encode("error", reason=reason))
        self.close()

    def ungate(self) -> None:
        """Tell a launch gate to stay open, and close."""
        self._send(encode("ungated"))
        self.close()

    def read_final_packets(self) -> None:
        """Read the packets that a process sent just before it ended, as many as a correct client may have
        sent."""
        for _ in range(self._limits.final_packets):
            if self._open:
                self._readable()

    def _page(self) -> SharedPage:
        assert self.page is not None, "only a welcomed session gets turns"
        return self.page

    def _received(self, packet: bytes) -> None:
        if not self._packets.take(1 + len(packet) // self._limits.packet_bytes):
            self.refuse(
                f"more than {self._limits.packets_per_second} packets a second without a request to yield",
                "flood",
            )
            return
        try:
            self._receiver.received(self, decode(packet))
        except PacketError as error:
            self.refuse(str(error), "protocol error")
        except RefusedError as error:
            self.refuse(str(error))
        except Exception:
            # A packet that makes the agent fail must not do so again over the same connection.
            self._log.warning("fault", f"packet handling failed container={self.name}", traceback=True)
            self.refuse("the agent failed to handle that packet", "fault")

    def _closed(self) -> None:
        self._hello_timer.cancel()
        self._receiver.closed(self)

    def _send_failed(self, error: OSError) -> None:
        # The kernel limits the descriptors in flight of a user, root on the whole node, unless the sender has the capability.
        if error.errno == errno.ETOOMANYREFS:
            self._log.warning(
                "page",
                f"cannot send the session's page, too many descriptors of root are in flight on this node: give the node agent "
                f"the capability SYS_RESOURCE container={self.name} pid={self.peer.pid}",
            )

    def _brought_descriptors(self) -> None:
        self.refuse("no packet carries descriptors: send none", "descriptors")

    def _queue_full(self) -> None:
        self._log.warning("full", f"client does not read, closing container={self.name} pid={self.peer.pid}")


def _rights(descriptor: int) -> list[tuple[int, int, array.array[int]]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
