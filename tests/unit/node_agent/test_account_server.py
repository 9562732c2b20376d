"""When a process of a container is charged for its framework's own memory."""

from __future__ import annotations

import os
import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest
from laneway.lanes import MemoryAccount
from laneway.node_agent.clock import SystemClock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.memory_accounts.account_server import AccountServer
from laneway.node_agent.memory_accounts.packets import Kind, Request, uuid_bytes
from laneway.node_agent.memory_accounts.round_robin import RoundRobin
from laneway.node_agent.sessions.identity import Peer
from laneway.node_agent.sessions.limits import Limits

UUID = "GPU-00112233-4455-6677-8899-aabbccddeeff"
QUOTA, FRAMEWORK = 1000, 300


@pytest.mark.parametrize(
    ("requests", "used"),
    [
        ([(Kind.QUERY, 0)], 0),
        ([(Kind.QUERY, 0), (Kind.RELEASE, 5)], 0),
        ([(Kind.QUERY, 0), (Kind.RESERVE, 5)], FRAMEWORK + 5),
        ([(Kind.RESERVE, 5), (Kind.RESERVE, 5), (Kind.QUERY, 0)], FRAMEWORK + 10),
        ([(Kind.RESERVE, 0)], FRAMEWORK),
        ([(Kind.HELD, 5)], FRAMEWORK + 5),
    ],
)
def test_a_process_that_takes_memory_is_charged_once_and_one_that_only_asks_is_not(
    requests: list[tuple[Kind, int]], used: int
) -> None:
    account = MemoryAccount(QUOTA)
    lease = SimpleNamespace(account=account)
    gpus: Any = {UUID: SimpleNamespace(leases={"key": lease}, own_framework_bytes=FRAMEWORK)}
    loop = EventLoop(SystemClock())
    server = AccountServer(gpus, RoundRobin(loop), loop, Limits(), cast(Any, SimpleNamespace(changed=int)))
    server.listener = cast(
        Any,
        SimpleNamespace(
            record=SimpleNamespace(key="key", shares={UUID: 50}), limited_log=None, name="a", leave=id
        ),
    )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection = server.connect(ours, Peer(os.getpid(), 0), os.pidfd_open(os.getpid()))
    gpu = uuid_bytes(UUID)
    assert gpu is not None
    for number, (kind, size) in enumerate(requests):
        server.received(connection, Request(kind, gpu, size, number))
    assert account.used_bytes == used
    connection.close()
    theirs.close()
    loop.close()
    assert account.used_bytes == 0
