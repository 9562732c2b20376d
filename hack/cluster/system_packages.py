"""Installs the system's packages that Laneway's development needs: run by `make setup` before any virtual environment.

    python3 hack/cluster/system_packages.py [--list | --check]

Standard library only, Python 3.11. As root on Debian or Ubuntu the missing packages are printed and installed by apt;
elsewhere the missing ones are named and the status is 1. Where nothing is missing it ends at once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True)
class Package:
    """A Debian package, and the program on PATH or file that proves its presence."""

    name: str
    purpose: str
    programs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """One of them is enough."""

    def present(self) -> bool:
        found = all(shutil.which(program, path=_search_path()) for program in self.programs)
        return found and (not self.files or any(Path(file).exists() for file in self.files))


PACKAGES = (
    Package("ca-certificates", "downloads", files=("/etc/ssl/certs/ca-certificates.crt",)),
    Package("curl", "downloads", ("curl",)),
    Package("git", "development", ("git",)),
    Package("make", "development", ("make",)),
    Package("gcc", "the pause image, the tests of isolation", ("gcc",)),
    Package(
        "libc6-dev",
        "the pause image",
        files=tuple(f"/usr/lib/{folder}/libc.a" for folder in ("x86_64-linux-gnu", "aarch64-linux-gnu", "")),
    ),
    Package("openssl", "the cluster's certificates", ("openssl",)),
    Package("iproute2", "the cluster's network", ("ip",)),
    Package("iptables", "kube-proxy on the nodes", ("iptables",)),
    Package("conntrack", "kube-proxy on the nodes", ("conntrack",)),
    Package("socat", "kubectl port-forward", ("socat",)),
    Package("util-linux", "the nodes' namespaces", ("nsenter", "unshare", "setpriv")),
    Package("runc", "the nodes' containers", ("runc",)),
    Package(
        "containernetworking-plugins",
        "the pods' network",
        files=("/usr/lib/cni/ptp", "/opt/cni/bin/ptp", "/usr/libexec/cni/ptp"),
    ),
    Package("isal", "loading images in half the time: containerd unpacks with its igzip", ("igzip",)),
    Package("debootstrap", "the base image", ("debootstrap",)),
    Package("buildah", "the images", ("buildah",)),
    Package("busybox-static", "the tests' images", ("busybox",)),
    Package("prometheus", "the tests of metrics", ("prometheus", "promtool")),
)

_POLICY = Path("/usr/sbin/policy-rc.d")
_POLICY_TEXT = "#!/bin/sh\n# Made by Laneway's hack/cluster/system_packages.py while it installs: no service may start.\nexit 101\n"


class SetupError(Exception):
    """The packages cannot be installed; the message says why and what to do."""


def main(arguments: list[str]) -> int:
    if "--list" in arguments:
        for package in PACKAGES:
            print(f"{package.name:<30} {package.purpose}")
        return 0
    try:
        _check_python()
        packages = (*PACKAGES, *_python_packages(), *_browser_packages())
        missing = [package.name for package in packages if not package.present()]
        if missing:
            print(f"system packages that are missing: {' '.join(missing)}", flush=True)
            if "--check" in arguments:
                return 1
            _check_installable(missing)
            _install(missing)
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _check_python() -> None:
    if sys.version_info < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        raise SetupError(
            f"this is Python {sys.version.split()[0]}, Laneway needs {wanted} or newer: "
            f"name one with 'make SYSTEM_PYTHON=python{wanted} …'"
        )


def _check_installable(missing: list[str]) -> None:
    names = " ".join(missing)
    if not _is_debian():
        raise SetupError(f"this is not Debian or Ubuntu: install what these packages of Debian hold: {names}")
    if os.geteuid() != 0:
        raise SetupError(f"installing them needs root: run 'sudo apt-get install {names}'")


def _python_packages() -> tuple[Package, ...]:
    """Only Debian's own Python has these parts in separate packages."""
    if Path(sys.base_prefix) != Path("/usr"):
        return ()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (
        Package(
            "python3-venv",
            "the virtual environment",
            files=(f"/usr/lib/python{version}/ensurepip/__init__.py",),
        ),
        Package(
            f"libpython{version}",
            "the tests of isolation: a program with Python in it",
            files=tuple(
                f"/usr/lib/{folder}/libpython{version}.so.1.0"
                for folder in ("x86_64-linux-gnu", "aarch64-linux-gnu")
            ),
        ),
    )


def _browser_packages() -> tuple[Package, ...]:
    """Ubuntu has Chromium as a snap only, which does not run everywhere; there the tests of the page are left out."""
    if _os_release().get("ID") != "debian":
        return ()
    return (Package("chromium", "the tests of the board's page", ("chromium",)),)


def _install(names: list[str]) -> None:
    apt = ["apt-get", "-o", "DPkg::Lock::Timeout=300"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _no_service_starts():
        for command in (
            ["dpkg", "--configure", "-a"],  # completes an installation that was interrupted
            [*apt, "update", "-q"],
            [*apt, "install", "-q", "-y", "--no-install-recommends", *names],
        ):
            print(f"+ {' '.join(command)}", flush=True)
            status = subprocess.run(command, env=environment, check=False).returncode
            if status != 0:
                raise SetupError(f"'{' '.join(command)}' ended with status {status}")
    if "prometheus" in names and Path("/run/systemd/system").exists():
        # Only its program is wanted, not the service that its package enables for the next boot.
        subprocess.run(["systemctl", "disable", "--quiet", "prometheus"], check=False)
    still_missing = [package.name for package in PACKAGES if not package.present()]
    if still_missing:
        raise SetupError(f"apt installed them, yet these are still not found: {' '.join(still_missing)}")


@contextmanager
def _no_service_starts() -> Iterator[None]:
    """Some packages start a service when they are installed; Debian's policy layer forbids it (invoke-rc.d(8)).

    The machine's own policy, where it has one, stays. A file of ours that a killed run left is ours to remove.
    """
    ours = not _POLICY.exists() or _POLICY.read_text() == _POLICY_TEXT
    if ours:
        _POLICY.write_text(_POLICY_TEXT)
        _POLICY.chmod(0o755)
    try:
        yield
    finally:
        if ours:
            _POLICY.unlink(missing_ok=True)


def _is_debian() -> bool:
    release = _os_release()
    families = f"{release.get('ID', '')} {release.get('ID_LIKE', '')}".replace('"', "").split()
    return bool({"debian", "ubuntu"} & set(families)) and shutil.which("apt-get") is not None


def _os_release() -> dict[str, str]:
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _search_path() -> str:
    """Programs for root are needed, although a user's PATH lacks their folders."""
    return ":".join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
