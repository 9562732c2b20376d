"""Keeps Python's collector of cyclic garbage out of a decision: with thousands of jobs in memory one run of it takes longer
than the decision. What it would have found, it finds afterwards."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collector() -> Iterator[None]:
    """Let the collector wait while the block runs."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
