"""One line a step, with the seconds since the command began: what a person watches while a cluster comes up."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_STARTED_AT = time.monotonic()


class ClusterError(Exception):
    """Something that the user can act on: the message says what was wrong, where, and what to do."""


def report(message: str) -> None:
    """Print a progress line on standard error, so that standard output stays free for answers (paths, JSON)."""
    elapsed_seconds = time.monotonic() - _STARTED_AT
    print(f"[cluster {elapsed_seconds:6.1f}s] {message}", file=sys.stderr, flush=True)


@contextmanager
def step(name: str) -> Iterator[None]:
    """Report the begin of a step and, unless it raised, how long it took."""
    report(f"{name} …")
    started_at = time.monotonic()
    yield
    report(f"{name}: done in {time.monotonic() - started_at:.1f} s")
