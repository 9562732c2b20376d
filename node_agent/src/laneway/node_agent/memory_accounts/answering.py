"""Applies a process's request to a memory account: pure."""

from __future__ import annotations

from laneway.lanes import MemoryAccount
from laneway.node_agent.memory_accounts.packets import Kind, Reply, Request, Status


def answer(request: Request, account: MemoryAccount | None, pid: int, framework_bytes: int) -> Reply | None:
    """Apply a request, and return the reply if it gets one.

    Args:
        request: what the process asks.
        account: its container's account on that GPU; None if it has none.
        pid: the process, which is in the account.
        framework_bytes: charged to each process for its framework's own memory.
    """
    answers = request.kind in (Kind.RESERVE, Kind.QUERY)
    if account is None:
        return Reply(Status.NO_SUCH_GPU, 0, 0, 0, request.sequence) if answers else None
    if request.kind in (Kind.RESERVE, Kind.HELD):
        # Others may have no CUDA context: a monitoring program only asks.
        account.charge_framework(pid, framework_bytes)
    granted = True
    if request.kind is Kind.RESERVE:
        granted = account.reserve(pid, request.size_bytes)
    elif request.kind is Kind.RELEASE:
        account.release(pid, request.size_bytes)
    elif request.kind is Kind.HELD:
        account.hold(pid, request.size_bytes)
    if not answers:
        return None
    status = Status.GRANTED if granted else Status.REFUSED
    return Reply(status, account.used_bytes, account.quota_bytes, account.used_by(pid), request.sequence)
