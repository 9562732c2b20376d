"""Restores the memory accounts after a restart of the agent.

A process reconnects with its next allocation or release, which may be hours away. Until then it counts with
what it had last, and as a process that the interposer is loaded in.
"""

from __future__ import annotations

import os

from laneway.lanes import MemoryAccount
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.processes import start_ticks
from laneway.node_agent.recovery.restored_container import is_same_container
from laneway.node_agent.recovery.state import AccountProcessState, GPUState
from laneway.node_agent.turns.gpu_turns import GPUTurns


def restore_accounts(turns: GPUTurns, state: GPUState, loop: EventLoop) -> None:
    """Restore a GPU's accounts, of containers and processes that still exist."""
    for saved in state.accounts:
        lease = turns.leases.get(saved.key)
        if lease is None or not is_same_container(lease, saved):
            continue
        for process in saved.processes:
            if start_ticks(process.pid) == process.start_ticks:
                _restore(lease.account, process, turns.own_framework_bytes, loop)


def _restore(
    account: MemoryAccount, process: AccountProcessState, framework_bytes: int, loop: EventLoop
) -> None:
    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:
        return  # it has just ended
    account.enter(process.pid, process.start_ticks)
    if process.reserved_bytes:
        account.charge_framework(process.pid, framework_bytes)
        account.hold(process.pid, process.reserved_bytes)

    def ended() -> None:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        account.leave(process.pid)

    loop.add_reader(pidfd, ended)
