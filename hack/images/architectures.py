"""Architectures of images, as images name them."""

from __future__ import annotations

import platform

from hack.images.chroot import ImageError

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""The kernel's name of each."""


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
