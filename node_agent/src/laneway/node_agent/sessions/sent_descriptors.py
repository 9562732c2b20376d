"""Keeps descriptors that a peer sends along with its packets (``SCM_RIGHTS``) out of the event loop.

No packet of a client carries one. The kernel drops what is not received, and what is dropped last is closed: in the
thread that reads the packet, or that closes a connection with unread packets. Closing may take as long as the sender
likes, for example for a TCP socket with unsent data and ``SO_LINGER``. So:

- From Linux 6.16 on the kernel refuses to send descriptors to a socket that says so (``SO_PASSRIGHTS``).
- On earlier ones a packet is looked at before it is read, and a connection is closed by a process that ends at once:
  the kernel does not linger for a process that ends.
"""

from __future__ import annotations

import logging
import socket
import subprocess
import threading
from contextlib import suppress
from typing import Final

_SO_PASSRIGHTS: Final = 83
_log = logging.getLogger(__name__)


def refuse_descriptors(listener: socket.socket) -> None:
    """Have the kernel refuse descriptors for a socket and the connections to it, if it can."""
    with suppress(OSError):
        listener.setsockopt(socket.SOL_SOCKET, _SO_PASSRIGHTS, 0)


def may_bring_descriptors(connected: socket.socket) -> bool:
    """Return whether packets to a socket may carry descriptors."""
    try:
        return connected.getsockopt(socket.SOL_SOCKET, _SO_PASSRIGHTS) != 0
    except OSError:
        return True  # an older kernel


def next_packet_has_descriptors(connected: socket.socket) -> bool:
    """Return whether the next packet carries descriptors. They stay in the queue.

    Raises:
        OSError: there is no packet, or the connection is broken.
    """
    _, _, flags, _ = connected.recvmsg_into([bytearray(1)], 0, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    return bool(flags & socket.MSG_CTRUNC)


def close_socket(closing: socket.socket) -> None:
    """Close a connection or a listener, whatever lies unread in it."""
    if closing.fileno() < 0:
        return
    if not may_bring_descriptors(closing):
        closing.close()
        return
    with suppress(OSError):
        closing.shutdown(socket.SHUT_RDWR)  # for the peer it is closed from now on
    detached = socket.socket(fileno=closing.detach())
    threading.Thread(target=_close_in_a_process, args=(detached,), name="close", daemon=True).start()


def _close_in_a_process(closing: socket.socket) -> None:
    """Let a process that is about to end have the last reference to a socket."""
    try:
        last = subprocess.Popen(
            ["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[closing.fileno()]
        )
    except OSError as error:
        _log.warning("cannot start a process to close a connection error=%s", error)
        closing.close()
        return
    closing.close()
    last.communicate()
