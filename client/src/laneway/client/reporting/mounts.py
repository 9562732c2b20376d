"""Whether a file outlives its container, by the kernel's list of mounts (proc_pid_mountinfo(5))."""

from __future__ import annotations

import os
import re
from typing import Final

MOUNTS_FILE: Final = "/proc/self/mountinfo"
SHORT_LIVED: Final = frozenset({"overlay", "aufs", "fuse.fuse-overlayfs", "tmpfs", "ramfs", "devtmpfs"})
"""File systems of containers' own layers, and in memory. The kubelet deletes both with the container."""
EMPTY_DIR: Final = "/kubernetes.io~empty-dir/"
"""In the path of a volume that the kubelet deletes with the pod."""


def outlives_container(path: str) -> bool:
    """Returns whether a file with this path is still there after its container; True where that is unknown."""
    if "://" in path:
        return True  # an object store
    try:
        with open(MOUNTS_FILE, encoding="utf-8", errors="surrogateescape") as file:
            return is_lasting(os.path.realpath(path), file.read())
    except OSError:
        return True


def is_lasting(path: str, mounts: str) -> bool:
    """Returns whether the mount that holds a path outlives the container.

    Args:
        path: absolute, without links.
        mounts: the content of `mountinfo`.
    """
    longest, lasting = -1, True
    for line in mounts.splitlines():
        mount, _, source = line.partition(" - ")
        fields, kind = mount.split(" "), source.split(" ")[0]
        if len(fields) < 5:
            continue
        point = _unescaped(fields[4]).rstrip("/")
        # Of two mounts on one folder, the later one covers the other.
        if (path == point or path.startswith(f"{point}/")) and len(point) >= longest:
            longest = len(point)
            lasting = kind not in SHORT_LIVED and EMPTY_DIR not in f"{_unescaped(fields[3])}/"
    return lasting


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
