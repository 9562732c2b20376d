"""How long a holder may take to release its turn after a request to yield: pure.

A holder releases at the end of its iteration, and a script that accumulates gradients may have long ones. So
the limit follows the measured iteration, but no report raises it beyond a multiple of the configured time.
"""

from __future__ import annotations

from laneway.node_agent.turns.session import Sizes

_ITERATIONS = 2
"""The request may come at the beginning of an iteration, and the next one may be as long as the longest."""

MAX_TIMEOUTS = 10
"""The limit is at most this many configured times, whatever a client reports."""


def release_limit_seconds(counted: Sizes | None, timeout_seconds: float) -> float:
    """Return the limit of a lease.

    Args:
        counted: its measured sizes; None while it is not measured, so that the configured time applies.
        timeout_seconds: the configured time, ``turns.timeoutSeconds``.
    """
    if counted is None:
        return timeout_seconds
    longest_seconds = counted.iteration_seconds + counted.iteration_seconds_spread
    return max(timeout_seconds, min(_ITERATIONS * longest_seconds, MAX_TIMEOUTS * timeout_seconds))
