"""When each node's agent was last heard of: by its Lease, or by its GPUNode where it has no Lease (an older agent).

Times are not read from the Leases, so clocks of two machines are never compared. As in Kubernetes' node lifecycle controller, a
new version counts as heard when it is seen, and only time in which renewals could be seen counts as silence.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Mapping
from itertools import takewhile


class Heartbeats:
    """The agents' signs of life."""

    def __init__(self) -> None:
        self._watched_seconds = 0.0
        """Time in which renewals could be seen: the clock of this class."""

        self._heard_seconds: OrderedDict[str, float] = OrderedDict()
        """By node, the longest silent first."""

        self._versions: dict[str, str] = {}
        """Resource version of each node's Lease."""

    def wrote(self, node: str) -> None:
        """Note a new version of a GPUNode. It counts where the agent holds no Lease: others write orders into it."""
        if node not in self._versions:
            self._hear(node)

    def listed(self, versions: Mapping[str, str], known: Container[str], since_last_seconds: float) -> None:
        """Take a list of the Leases.

        Args:
            versions: by node, the resource version of its Lease.
            known: nodes with a GPUNode; others are forgotten once their Lease is gone.
            since_last_seconds: time since the last list; 0 if renewals could not be seen meanwhile.
        """
        self._watched_seconds += since_last_seconds
        renewed = [node for node, version in versions.items() if self._versions.get(node) != version]
        for node in [each for each in self._heard_seconds if each not in versions and each not in known]:
            del self._heard_seconds[node]
        self._versions = dict(versions)
        for node in renewed:
            self._hear(node)

    def silent(self, seconds: float) -> frozenset[str]:
        """Return the nodes whose agent has not been heard of for longer than this."""
        before = self._watched_seconds - seconds
        found = takewhile(lambda item: item[1] < before, self._heard_seconds.items())
        return frozenset(node for node, _ in found)

    def _hear(self, node: str) -> None:
        self._heard_seconds[node] = self._watched_seconds
        self._heard_seconds.move_to_end(node)
