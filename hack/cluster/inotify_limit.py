"""Raises the one kernel limit that several clusters exceed: inotify instances per user (default 128).

A node takes about a dozen, and a component that gets none more ends with "too many open files". So the limit is raised
while there are clusters, and put back when the last one goes.
"""

from __future__ import annotations

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
    """Restore the limit unless other clusters exist."""
    with exclusive(state_root() / ".locks" / "inotify.lock"):
        if _former().exists() and not any(state_root().glob("*/cluster.json")):
            setting.write_text(_former().read_text())
            _former().unlink()
