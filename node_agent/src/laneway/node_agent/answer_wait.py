"""Waits for the answer of another thread, with a limit that counts only time in which this process ran."""

from __future__ import annotations

from concurrent import futures
from typing import Any

_PARTS = 10


def is_answered_within(answer: futures.Future[Any], seconds: float) -> bool:
    """Wait for an answer; return whether there is one.

    A node may stop the agent for seconds: the machine is suspended or migrated, the container is frozen or gets no CPU. The
    other thread stands still then as well. So the wait has parts, and a stop counts as one of them at most.

    Args:
        answer: what another thread sets.
        seconds: the limit.
    """
    for _ in range(_PARTS):
        if futures.wait((answer,), seconds / _PARTS).done:
            return True
    return answer.done()
