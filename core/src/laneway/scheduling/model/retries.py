"""How long a gang waits after a failed or refused attempt. The operator waits so, and the simulator models it."""

from __future__ import annotations

from typing import Final

LONGEST_BACKOFF_SECONDS: Final = 300.0
_MOST_DOUBLINGS: Final = 9
"""One second doubled this often exceeds the longest wait. The count may grow without bound, but a float cannot."""

FAILURES_IN_A_ROW_SECONDS: Final = 3600.0
"""Two failures on a node with more than this between them have nothing to do with each other."""

_FIRST_PAUSE_SECONDS: Final = 300.0
_LONGEST_PAUSE_SECONDS: Final = 86_400.0
"""How long nobody is preempted at least, so that pods which come and go cannot make a gang preempt others for nothing again and
again."""


def backoff_seconds(first_seconds: float, times: int) -> float:
    """Return how long a job waits for its n-th time in a row."""
    doublings = min(max(0, times - 1), _MOST_DOUBLINGS)
    return min(first_seconds * 2.0**doublings, LONGEST_BACKOFF_SECONDS)


def refusal_pause_seconds(times: int) -> float:
    """Return for how long at least no job is preempted for a gang that kube-scheduler or kubelets refused for the n-th time in a row."""
    return min(_FIRST_PAUSE_SECONDS * 2.0 ** min(times - 1, 10), _LONGEST_PAUSE_SECONDS)


def avoided_seconds(avoid_node_seconds: float, failures: int, node_failures: int) -> float:
    """Return for how long a job avoids a node after its n-th failure in a row there; 0: it does not yet.

    Args:
        avoid_node_seconds: the first time.
        failures: in a row, on this node.
        node_failures: from this failure on, the job avoids the node.
    """
    return avoid_node_seconds * max(0, 1 + failures - node_failures)
