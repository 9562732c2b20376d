"""Runs programs in a mount namespace of their own, and inside a root file system, with this machine's way to the network.

What is mounted for a program goes when it ends, whichever way it ends, and nothing of this machine stays in the root file system.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

_CA_BUNDLES = ("PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
_DEBIAN_CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")

# $1: the root; then pairs SOURCE TARGET to bind, then "--", then the command.
_ENTER = """
root=$1; shift
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
while [ "$1" != -- ]; do mount --bind "$1" "$root$2"; shift 2; done
shift
exec chroot "$root" "$@"
"""


class ImageError(Exception):
    """An image or its base cannot be built on this machine; the message says why and what to do."""


def require_tools(*tools: str) -> None:
    """Raises unless this process is root and the programs are installed."""
    if os.geteuid() != 0:
        raise ImageError(
            "building images without Docker needs root (debootstrap, chroot, buildah): run as root, or install Docker"
        )
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        raise ImageError(
            f"not installed: {', '.join(missing)}. On Debian or Ubuntu: apt-get install debootstrap buildah util-linux"
        )


def host_ca_bundle() -> Path | None:
    """Returns the certificates that this machine's programs trust."""
    candidates = [Path(os.environ[name]) for name in _CA_BUNDLES if os.environ.get(name)]
    return next((path for path in (*candidates, _DEBIAN_CA_BUNDLE) if path.is_file()), None)


def run(command: list[str], environment: Mapping[str, str] | None = None, *, isolated: bool = True) -> None:
    """Runs `command`, in its own mount namespace if `isolated`. Its output is shown only if it fails."""
    output(["unshare", "--mount", "--propagation", "private", *command] if isolated else command, environment)


def output(command: list[str], environment: Mapping[str, str] | None = None) -> str:
    """Returns the standard output of a program that must succeed."""
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except FileNotFoundError as error:
        raise ImageError(f"not installed: {command[0]}") from error
    if done.returncode != 0:
        tail = "\n".join([*done.stdout.splitlines()[-20:], *done.stderr.splitlines()[-20:]])
        raise ImageError(f"{' '.join(command)} ended with status {done.returncode}:\n{tail}")
    return done.stdout


def succeeds(command: list[str]) -> bool:
    """Returns whether a program is installed and exits with status 0."""
    try:
        output(command)
    except ImageError:
        return False
    return True


def run_inside(
    root: Path,
    command: list[str],
    binds: Mapping[Path, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Runs `command` with `root` as `/`, with /proc, an empty /tmp, this machine's resolver and proxies, and `binds` (path: where inside)."""
    mounts = dict(binds or {})
    mounts[Path("/etc/resolv.conf").resolve()] = "/etc/resolv.conf"
    ca_bundle = host_ca_bundle()
    if ca_bundle is not None:
        mounts[ca_bundle] = str(_DEBIAN_CA_BUNDLE)
    pairs = [word for source, target in mounts.items() for word in (str(source), target)]
    inside = {
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        **{name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")},
        **(environment or {}),
    }
    run(["sh", "-euc", _ENTER, "enter", str(root), *pairs, "--", *command], inside)
