"""Architectures of images, as images name them, and whether this machine runs their programs."""

from __future__ import annotations

import platform
from pathlib import Path

from hack.images.chroot import ImageError

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""The kernel's name of each."""

BINFMT = Path("/proc/sys/fs/binfmt_misc")


def host() -> str:
    """Returns this machine's architecture.

    Raises:
        ImageError: no image is built for it.
    """
    names = {machine: name for name, machine in MACHINES.items()}
    if platform.machine() not in names:
        raise ImageError(
            f"no image is built for {platform.machine()}: build on a machine with one of {', '.join(names)}"
        )
    return names[platform.machine()]


def require_emulation(architecture: str, binfmt: Path = BINFMT) -> None:
    """Raises unless the kernel runs programs of the architecture, by itself or through QEMU.

    Raises:
        ImageError: says what to install.
    """
    if architecture == host():
        return
    handler = binfmt / f"qemu-{MACHINES[architecture]}"
    if not handler.is_file() or "enabled" not in handler.read_text(encoding="utf-8").split():
        raise ImageError(
            f"this machine does not run {architecture} programs, which set up the root file system of an image. On Debian or Ubuntu: "
            f"apt-get install qemu-user-static binfmt-support, and mount -t binfmt_misc binfmt_misc {BINFMT} where that folder is empty"
        )
