"""Where what is built stays between two runs: one folder outside the tree, entries named by the hash of what they were made from.

An entry is made under a name of its own (`.partial-…`) and renamed into place when it is whole. So an entry that exists is complete,
and a build that was interrupted leaves nothing but a `.partial-…`, which the next build removes. One lock a kind of entry keeps two
builds apart; the kernel lets go of it when its holder ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL_PREFIX = ".partial-"


def cache_folder() -> Path:
    """`$LANEWAY_CACHE`, else `~/.cache/laneway`."""
    configured = os.environ.get("LANEWAY_CACHE", "").strip()
    return Path(configured).expanduser().resolve() if configured else Path.home() / ".cache" / "laneway"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds `folder` for this process; waits for another one that builds there."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another build in {folder}", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def entry(folder: Path, name: str, make: Callable[[Path], None]) -> Path:
    """The entry `name` of `folder`; `make(path)` makes it, a file or a folder, where it is not there yet."""
    final = folder / name
    if final.exists():
        return final
    with locked(folder):
        if final.exists():
            return final
        for left_over in folder.glob(f"{PARTIAL_PREFIX}*"):
            remove(left_over)
        partial = folder / f"{PARTIAL_PREFIX}{name}"
        make(partial)
        partial.rename(final)
    return final


def remove(path: Path) -> None:
    """Deletes a file or a folder, if there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
