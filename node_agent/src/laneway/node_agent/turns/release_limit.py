"""How long a holder may take to release its turn after a request to yield: pure.

A holder releases at the end of its iteration, and a script that accumulates gradients may have long ones. So
the limit follows the measured iteration, but no report raises it beyond a multiple of the configured time.

The first iteration of a process often compiles (``torch.compile``, JAX) or searches for the fastest kernels, and nothing is
known of it. So it has a limit of its own. The lane waits meanwhile: the process may begin to compute at any moment.

An iteration of a job that spans GPUs ends when its last worker has computed, and that worker may wait for a holder
elsewhere that does not release. So such a job has longer than any other holder takes to be stopped.
"""

from __future__ import annotations

from laneway.node_agent.turns.session import Sizes

_ITERATIONS = 2
"""The request may come at the beginning of an iteration, and the next one may be as long as the longest."""

MAX_TIMEOUTS = 10
"""The limit is at most this many configured times, whatever a client reports."""


def release_limit_seconds(
    counted: Sizes | None, timeout_seconds: float, first_iteration_seconds: float | None = None
) -> float:
    """Return the limit of a lease.

    Args:
        counted: its measured sizes; None while it is not measured, so that the configured time applies.
        timeout_seconds: the configured time, ``turns.timeoutSeconds``.
        first_iteration_seconds: the limit while a process of it is in its first iteration,
            ``turns.firstIterationSeconds``; None: no process is.
    """
    least_seconds = max(timeout_seconds, first_iteration_seconds or 0)
    if counted is None:
        return least_seconds
    longest_seconds = counted.iteration_seconds + counted.iteration_seconds_spread
    return max(least_seconds, min(_ITERATIONS * longest_seconds, MAX_TIMEOUTS * timeout_seconds))


def spanning_limit_seconds(
    timeout_seconds: float, first_iteration_seconds: float, kill_seconds: float
) -> float:
    """Return the limit of a lease of a job that spans GPUs.

    Any other holder has lost its turn, its patience and its processes before.

    Args:
        timeout_seconds: the configured time, ``turns.timeoutSeconds``.
        first_iteration_seconds: the limit of a first iteration.
        kill_seconds: from SIGTERM to SIGKILL, ``watchdog.killSeconds``.
    """
    longest_limit_seconds = max(MAX_TIMEOUTS * timeout_seconds, first_iteration_seconds)
    return longest_limit_seconds + timeout_seconds + kill_seconds
