"""Calls in forked processes."""

from __future__ import annotations

import os
from collections.abc import Callable


def in_forked_child(call: Callable[[], bool]) -> bool:
    """Runs a call in a forked child; returns whether it returned True there."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if call() else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
