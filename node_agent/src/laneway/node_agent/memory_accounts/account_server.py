"""Serves the memory accounts of one container: one for each of its GPUs, in the GPU's lease.

A process is in the accounts from its connection until that closes or the process ends.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from laneway.api.names import ACCOUNT_SOCKET_NAME
from laneway.lanes import MemoryAccount
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.memory_accounts.answering import answer
from laneway.node_agent.memory_accounts.connection import AccountConnection
from laneway.node_agent.memory_accounts.packets import Reply, Request, uuid_bytes
from laneway.node_agent.memory_accounts.round_robin import RoundRobin
from laneway.node_agent.processes import start_ticks
from laneway.node_agent.sessions.identity import Peer
from laneway.node_agent.sessions.limits import Limits, ProcessLimits
from laneway.node_agent.sessions.listener import Listener
from laneway.node_agent.sessions.packet_socket import Readers
from laneway.node_agent.turns.event_recorder import EventRecorder
from laneway.node_agent.turns.gpu_turns import GPUTurns


@dataclass(frozen=True, slots=True)
class _GPUAccount:
    """The container's account on one GPU."""

    account: MemoryAccount
    framework_bytes: int
    """Charged to each process for its framework's own memory."""


class AccountServer:
    """Keeps the accounts of one container. Call it on the loop's thread."""

    socket_name = ACCOUNT_SOCKET_NAME

    def __init__(
        self,
        gpus: Mapping[str, GPUTurns],
        readers: Readers,
        loop: EventLoop,
        limits: Limits,
        recorder: EventRecorder,
    ) -> None:
        """Start without a listener; :attr:`listener` is set before the first connection arrives.

        Args:
            gpus: the node's GPUs.
            readers: the place in the event loop that all containers' requests share.
            loop: the event loop.
            limits: limits on the container.
            recorder: learns when a process comes or goes.
        """
        self.listener: Listener | None = None
        self._gpus = gpus
        self._readers = RoundRobin(readers)
        self._loop = loop
        self._limits = limits
        self._recorder = recorder
        self._accounts: dict[bytes, _GPUAccount] = {}
        self._connections: dict[int, AccountConnection] = {}
        """By pid."""

        self._pidfds: dict[AccountConnection, int] = {}

    def connect(self, connected: socket.socket, peer: Peer, pidfd: int) -> AccountConnection:
        """Open the accounts to a verified process. Another connection of the same process replaces its first."""
        assert self.listener is not None, "a server has a listener before its first connection"
        self._find_accounts(self.listener)
        earlier = self._connections.get(peer.pid)
        if earlier is not None:
            earlier.close()
        connection = AccountConnection(
            connected,
            peer,
            self,
            self._readers,
            self._loop,
            self._limits.queue_bytes,
            self.listener.limited_log,
            self.listener.name,
        )
        self._connections[peer.pid] = connection
        self._pidfds[connection] = pidfd
        # A forked child may hold the connection open after the process has ended.
        self._loop.add_reader(pidfd, connection.close)
        # Read once: the state is saved on the loop's thread, with all processes of all containers.
        began = start_ticks(peer.pid) or 0
        for gpu in self._accounts.values():
            gpu.account.enter(peer.pid, began)
        self._recorder.changed()
        return connection

    def max_processes(self, limits: ProcessLimits) -> int:
        """Return how many processes may be connected."""
        return limits.accounts

    def rejection(self, reason: str) -> bytes:
        """Return nothing: a process without an account continues without one."""
        return b""

    def received(self, connection: AccountConnection, request: Request) -> Reply | None:
        """Handle a request, and return the reply if it gets one."""
        found = self._accounts.get(request.gpu)
        if found is None:
            return answer(request, None, connection.pid, 0)
        return answer(request, found.account, connection.pid, found.framework_bytes)

    def closed(self, connection: AccountConnection) -> None:
        """Give back all that the process of a closed connection had."""
        assert self.listener is not None, "a server has a listener before its first connection"
        self.listener.leave(connection)
        del self._connections[connection.pid]
        pidfd = self._pidfds.pop(connection)
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        for gpu in self._accounts.values():
            gpu.account.leave(connection.pid)
        self._recorder.changed()

    def discard_all(self) -> None:
        """Give up the place in the event loop; the container has ended and its connections are closed."""
        self._readers.close()

    def _find_accounts(self, listener: Listener) -> None:
        """Find the container's accounts, once: its GPUs never change."""
        if self._accounts:
            return
        for uuid in listener.record.shares:
            turns, raw = self._gpus[uuid], uuid_bytes(uuid)
            if raw is not None:
                account = turns.leases[listener.record.key].account
                self._accounts[raw] = _GPUAccount(account, turns.own_framework_bytes)
