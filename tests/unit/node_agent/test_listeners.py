"""Sockets of containers that cannot be opened."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from laneway.node_agent.clock import SystemClock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.memory_accounts.account_server import AccountServer
from laneway.node_agent.memory_accounts.round_robin import RoundRobin
from laneway.node_agent.sessions.broker import SessionBroker
from laneway.node_agent.sessions.limits import Limits
from laneway.node_agent.sessions.listeners import Listeners

from tests.support.node_agent.gpu_bench import GPU, GPUBench


def descriptors() -> set[tuple[str, str]]:
    """Return this process's descriptors and what they are. Other tests' garbage may close some of its own at any time."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the one that listed them
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
    return found


def test_sockets_that_cannot_be_opened_cost_no_descriptor_and_open_later(tmp_path: Path) -> None:
    bench, clock = GPUBench(), SystemClock()
    record = bench.container("a").record
    gpus = {GPU: bench.turns}
    loop, limits = EventLoop(clock), Limits()
    recorder = cast(Any, SimpleNamespace(changed=int))
    servers = (
        partial(AccountServer, gpus, RoundRobin(loop), loop, limits, recorder),
        partial(SessionBroker, gpus, 0.1, loop, clock, limits),
    )
    listeners = Listeners(gpus, servers, loop, clock, limits)
    folder = tmp_path / "folder"
    before = descriptors()
    listeners.container_added(record, folder)
    for _ in range(100):
        listeners.ensure_container_socket(record, folder)
    assert descriptors() <= before
    folder.mkdir()
    listeners.ensure_container_socket(record, folder)
    assert sorted(each.name for each in folder.iterdir()) == ["account.sock", "agent.sock"]
    listeners.container_removed(record.key)
    assert descriptors() <= before
    loop.close()
