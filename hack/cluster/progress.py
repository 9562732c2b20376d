"""Prints one line per step with the seconds since the command began."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_STARTED_AT = time.monotonic()


class ClusterError(Exception):
    """An error for the user: the message says what is wrong, where, and what to do."""


def report(message: str) -> None:
    """Print a progress line on standard error, because standard output is for results (paths, JSON)."""
    elapsed_seconds = time.monotonic() - _STARTED_AT
    print(f"[cluster {elapsed_seconds:6.1f}s] {message}", file=sys.stderr, flush=True)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Report the start of a step and, unless it raises, its duration."""
    report(f"{name} …")
    started_at = time.monotonic()
    yield
    report(f"{name}: done in {time.monotonic() - started_at:.1f} s")
