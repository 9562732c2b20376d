"""The cache of built programs, toolchains and images, outside the tree and keyed by version."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hack.cluster.progress import report


def cache_folder() -> Path:
    """`$LANEWAY_CACHE`, or `~/.cache/laneway`. Everything below it can be deleted at any time and is rebuilt."""
    chosen = os.environ.get("LANEWAY_CACHE")
    return Path(chosen).expanduser().resolve() if chosen else Path.home() / ".cache" / "laneway"


@contextmanager
def exclusive(lock_file: Path) -> Iterator[None]:
    """Hold a lock between processes. The kernel frees it when its holder dies."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip()
            report(f"waiting for another command (pid {holder or 'unknown'}), which holds {lock_file} …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        print(os.getpid(), file=lock, flush=True)
        yield
