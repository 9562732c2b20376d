"""The claims of containers to one GPU, read from their leases."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from laneway.node_agent.enforcement.interposer import uninterposed_bytes
from laneway.node_agent.enforcement.violation import Claim
from laneway.node_agent.sessions.identity import Peer, check_identity
from laneway.node_agent.turns.gpu_turns import GPUTurns


def claims_of(
    turns: GPUTurns, containers: Path
) -> tuple[tuple[Claim, ...], Mapping[str, int], frozenset[str]]:
    """Return all claims to a GPU; the quotas of the containers that say that they found it full; and the keys of
    those whose memory is not covered. Called on the loop's thread."""
    claims = tuple(
        Claim(
            gpu=turns.gpu.uuid,
            record=lease.record,
            folder=containers / lease.key,
            quota_bytes=lease.quota_bytes,
            session_pids=frozenset(session.pid for session in lease.sessions),
            uncovered=lease.uncovered,
            overdue_release=lease.overdue_release,
            interposed_pids=lease.account.processes,
            uninterposed_bytes=uninterposed_bytes(turns, lease.record),
            simulated=turns.gpu.simulated,
            turns=turns.turn_use(lease),
        )
        for lease in turns.leases.values()
    )
    uncovered = frozenset(lease.key for lease in turns.leases.values() if lease.uncovered)
    return claims, turns.found_device_full(), uncovered


def check_member(claim: Claim, pid: int) -> None:
    """Check that a process belongs to a container.

    Raises:
        UnknownPeerError: it does not, or has ended.
    """
    check_identity(Peer(pid, uid=-1), claim.record, claim.folder)
