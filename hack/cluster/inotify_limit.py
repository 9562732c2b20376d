"""Raises the one kernel limit that several clusters exceed: inotify instances per user (default 128).

A node and an API server take about a dozen each, and a component that gets none more ends with "too many open files", or
polls. So the limit is raised while there are clusters or control planes, and put back when the last one goes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hack.cluster.cache import exclusive
from hack.cluster.layout import state_root

_ENOUGH = 2048
_SETTING = Path("/proc/sys/fs/inotify/max_user_instances")


def _former() -> Path:
    return state_root() / ".inotify-max-user-instances"


def raise_limit(setting: Path = _SETTING, enough: int = _ENOUGH) -> None:
    """Raise the limit and remember its former value, even across a crash."""
    with exclusive(state_root() / ".locks" / "inotify.lock"):
        current = int(setting.read_text())
        if current < enough:
            if not _former().exists():
                _former().write_text(str(current))
            setting.write_text(str(enough))


def restore_limit(setting: Path = _SETTING) -> None:
    """Restore the limit unless other clusters or control planes exist."""
    with exclusive(state_root() / ".locks" / "inotify.lock"):
        if _former().exists() and not any(state_root().glob("*/cluster.json")) and not _held():
            setting.write_text(_former().read_text())
            _former().unlink()


@contextmanager
def raised_limit(setting: Path = _SETTING, enough: int = _ENOUGH) -> Iterator[None]:
    """The limit is raised while the context lasts, where this process may change it. The kernel ends a dead holder's claim."""
    if not os.access(setting, os.W_OK):
        yield
        return
    holders = _holders()
    holders.parent.mkdir(parents=True, exist_ok=True)
    try:
        with holders.open("a") as claim:
            fcntl.flock(claim, fcntl.LOCK_SH)
            raise_limit(setting, enough)
            yield
    finally:
        restore_limit(setting)


def _holders() -> Path:
    """Each holder of the raised limit shares its lock."""
    return state_root() / ".locks" / "inotify-holders.lock"


def _held() -> bool:
    if not _holders().exists():
        return False
    with _holders().open("a") as claim:
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
