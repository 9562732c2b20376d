"""Downloads third-party wheels for the images with the images' own Python and this machine's package index.

The build stages then install from a folder, offline: how this machine reaches an index (addresses, certificates, credentials) is in no
image. pip runs in the `python` root file system because a requirement file's markers are about the Python that evaluates them. The files are locked, so they
name all that is needed, and pip looks for nothing beyond them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from hack.cluster.cache import cache_folder
from hack.images.architectures import MACHINES
from hack.images.cache import entry
from hack.images.chroot import host_ca_bundle, run_inside
from hack.images.recipes import REQUIREMENTS

SITE_PACKAGES = "/usr/local/lib/python3.13/dist-packages"
"""The folder that Debian's Python searches first for packages that are not Debian's."""


def wheelhouse(requirements: tuple[str, ...], root: Path, architecture: str = "") -> Path:
    """A folder with the wheels that requirement files lock, hashes checked.

    Args:
        requirements: names of files under `requirements/`.
        root: the root file system `python`.
        architecture: of the machine that uses the wheels, where it may be another than this one.
    """
    files = [REQUIREMENTS / name for name in requirements]
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:12]
    name = "-".join(
        [*(path.stem for path in files), root.name, *([architecture] if architecture else []), digest]
    )
    platforms = _platforms(architecture) if architecture else ""
    return entry(cache_folder() / "wheels", name, lambda folder: _download(files, root, folder, platforms))


def install_wheels(requirements: str, wheels: Path, root: Path) -> None:
    """Installs the packages of a requirement file from the folder `wheels` into the root file system `root`."""
    install = (
        "/tmp/pip/bin/pip install --quiet --no-deps --no-index --find-links /mnt --require-hashes --no-compile"
        f" --target {SITE_PACKAGES} --requirement /mnt/{requirements}"
    )
    # pip unpacks beside the target first, because /tmp is memory.
    environment = {"TMPDIR": "/usr/local"}
    run_inside(root, ["sh", "-c", f"python3 -m venv /tmp/pip && {install}"], {wheels: "/mnt"}, environment)


def _platforms(architecture: str) -> str:
    """Returns pip's options for wheels of an architecture, as in requirements/install.sh."""
    tags = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
    return " ".join(f"--platform {tag}_{MACHINES[architecture]}" for tag in tags)


def _download(files: list[Path], root: Path, folder: Path, platforms: str) -> None:
    print(f"downloading the wheels of {', '.join(path.name for path in files)}", file=sys.stderr, flush=True)
    folder.mkdir()
    for path in files:
        (folder / path.name).write_bytes(path.read_bytes())
    download = "/tmp/pip/bin/pip download --quiet --no-input --no-deps --require-hashes --only-binary=:all: --dest /mnt"
    script = " && ".join(
        [
            "python3 -m venv /tmp/pip",
            *(f"{download} {platforms} --requirement /mnt/{path.name}" for path in files),
        ]
    )
    run_inside(root, ["sh", "-c", script], {folder: "/mnt"}, _pip_environment())


def _pip_environment() -> dict[str, str]:
    """Returns this machine's pip settings, from its files and its environment, as variables."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    settings: dict[str, str] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition("=")
        section, _, option = key.rpartition(".")
        if option and section in ("global", "install", "download", ":env:"):
            settings[f"PIP_{option.upper().replace('-', '_')}"] = value.strip().strip("'\"")
    settings.update({name: value for name, value in os.environ.items() if name.startswith("PIP_")})
    # Paths of this machine mean nothing inside; its certificates are put in the place where Debian's Python looks.
    settings.pop("PIP_CONFIG_FILE", None)
    if "://" not in settings.get("PIP_FIND_LINKS", "://"):
        settings.pop("PIP_FIND_LINKS")
    if host_ca_bundle() is not None:
        settings["PIP_CERT"] = "/etc/ssl/certs/ca-certificates.crt"
    return settings
