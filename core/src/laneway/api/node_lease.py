"""The Lease in which a node agent shows that it is alive, as the kubelet's in ``kube-node-lease``. It is in Laneway's own namespace.

A GPUNode is written when it changes, a Lease all the time: it is small, and hardly anything watches it.
"""

from __future__ import annotations

from typing import Final

_PREFIX: Final = "node."

DURATION_SECONDS: Final = 40
"""``leaseDurationSeconds``: the kubelet's default."""

RENEW_SECONDS: Final = 10.0
"""Time between two renewals: the kubelet's, a quarter of the duration."""


def lease_name(node: str) -> str:
    """Return the name of a node's Lease. The prefix keeps it apart from the operator's own."""
    return _PREFIX + node


def node_of(lease: str) -> str | None:
    """Return the node of a Lease; None for a Lease of something else."""
    return lease.removeprefix(_PREFIX) if lease.startswith(_PREFIX) else None
