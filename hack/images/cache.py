"""Cache entries that exist completely or not at all.

An entry's name holds the hash of what it is made from. It is built under a temporary name (`.partial-…`) and renamed into
place when it is complete; what an interrupted build left is removed by the next one. One lock a folder keeps two builds
apart.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from hack.cluster.cache import exclusive

PARTIAL_PREFIX = ".partial-"


def entry(folder: Path, name: str, make: Callable[[Path], None]) -> Path:
    """Returns the entry `name` of `folder`. If it does not exist, `make(path)` creates it as a file or a folder."""
    final = folder / name
    if final.exists():
        return final
    with exclusive(folder / ".lock"):
        if final.exists():
            return final
        for left_over in folder.glob(f"{PARTIAL_PREFIX}*"):
            remove(left_over)
        partial = folder / f"{PARTIAL_PREFIX}{name}"
        make(partial)
        partial.rename(final)
    return final


def keep_newest(folder: Path, pattern: str, count: int) -> None:
    """Deletes the entries of `folder` that match `pattern`, except the `count` most recently used."""
    by_age = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in by_age[count:]:
        remove(path)


def remove(path: Path) -> None:
    """Deletes a file or a folder if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
