"""Makes root file systems of Debian, unpacked in the cache: base images of the container images, and a place to run PyTorch on a CPU.

    debootstrap ─▶ python ─▶ copy + apt ─▶ examples

Each step runs in a mount namespace of its own, so what it mounts goes when it ends, whichever way it ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from hack.images import apt_sources
from hack.images.cache import cache_folder, entry, remove
from hack.images.recipes import RECIPES, SUITE, Recipe, recipe_hash

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
HOST_CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


class RootfsError(Exception):
    """A root file system can't be made on this machine; the message says what is missing."""


def root_file_system(name: str) -> Path:
    """The unpacked root file system `name` (a key of `RECIPES`); makes it, and what it builds on, where it is not in the cache."""
    recipe = RECIPES[name]
    folder = cache_folder() / "rootfs"
    final_name = f"{name}-{SUITE}-{recipe_hash(recipe)}"
    if not (folder / final_name).exists():
        _check_machine()
        parent = root_file_system(recipe.parent) if recipe.parent else None
        print(f"making the root file system {final_name} ({', '.join(recipe.packages)})", file=sys.stderr, flush=True)
        entry(folder, final_name, lambda root: _make(recipe, parent, root))
    return folder / final_name


def _check_machine() -> None:
    if os.geteuid() != 0:
        raise RootfsError("making a root file system needs root (debootstrap and chroot); run as root, or use Docker")
    missing = [tool for tool in ("debootstrap", "chroot", "unshare") if shutil.which(tool) is None]
    if missing:
        raise RootfsError(f"not installed: {', '.join(missing)}; on Debian or Ubuntu: apt-get install debootstrap util-linux")


def _make(recipe: Recipe, parent: Path | None, root: Path) -> None:
    if parent is None:
        _bootstrap(recipe, root)
    else:
        _run(["cp", "-a", "--reflink=auto", str(parent), str(root)])
        _install(recipe, root)
    for pattern in recipe.remove:
        for path in list(root.glob(pattern)):
            remove(path)
    if recipe.warm_up:
        _keep_only_needed_byte_code(recipe, root)


def _bootstrap(recipe: Recipe, root: Path) -> None:
    """debootstrap from the machine's own mirror, checked against Debian's keyring where the machine has it."""
    command = ["debootstrap", "--variant=minbase", f"--include={','.join(recipe.packages)}"]
    if KEYRING.is_file():
        command.append(f"--keyring={KEYRING}")
    mirror = apt_sources.mirror()
    _run([*command, SUITE, str(root), *([mirror] if mirror else [])])


def _install(recipe: Recipe, root: Path) -> None:
    """apt inside `root`, with the host's way to the network, of which nothing stays behind."""
    borrowed = {
        root / "etc/apt/apt.conf.d/00-host": apt_sources.acquire_options(),
        root / "etc/resolv.conf": Path("/etc/resolv.conf").read_text(encoding="utf-8"),
    }
    before = {path: path.read_text(encoding="utf-8") if path.is_file() else None for path in borrowed}
    for path, text in borrowed.items():
        remove(path)
        path.write_text(text, encoding="utf-8")
    ca_bundle = root / "run/host-ca-certificates.crt"
    options = ["-q", "-y", "-o", "APT::Install-Recommends=false"]
    if HOST_CA_BUNDLE.is_file():
        shutil.copyfile(HOST_CA_BUNDLE, ca_bundle)
        options += ["-o", f"Acquire::https::CaInfo=/{ca_bundle.relative_to(root)}"]
    _run_inside(root, ["apt-get", *options, "update"])
    _run_inside(root, ["apt-get", *options, "install", *recipe.packages])
    ca_bundle.unlink(missing_ok=True)
    for path, original in before.items():
        remove(path)
        if original is not None:
            path.write_text(original, encoding="utf-8")


def _keep_only_needed_byte_code(recipe: Recipe, root: Path) -> None:
    for folder in list((root / "usr/lib").glob("**/__pycache__")):
        remove(folder)
    _run_inside(root, ["python3", "-c", recipe.warm_up])


def _run_inside(root: Path, command: list[str]) -> None:
    script = 'mount -t proc proc "$1/proc" && shift && exec chroot "$@"'
    environment = {
        "DEBIAN_FRONTEND": "noninteractive",
        "HOME": "/root",
        "LC_ALL": "C.UTF-8",
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        **{name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")},
    }
    _run(["sh", "-c", script, "sh", str(root), str(root), *command], environment)


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Runs in a mount namespace of its own; what it prints is shown only when it fails."""
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", *command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-25:])
        raise RootfsError(f"{' '.join(command[:4])} … ended with {done.returncode}:\n{tail}")
