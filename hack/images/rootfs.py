"""Creates Debian root file systems in the cache: base images of the container images, and a place to run PyTorch on a CPU.

debootstrap ─▶ python ─▶ copy + apt ─▶ examples ─▶ copy + apt + wheels ─▶ frameworks
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from hack.cluster.cache import cache_folder
from hack.images import apt_sources
from hack.images.architectures import host, require_emulation
from hack.images.cache import entry, remove
from hack.images.chroot import require_tools, run, run_inside
from hack.images.recipes import RECIPES, SUITE, Recipe, recipe_hash
from hack.images.wheels import install_wheels, wheelhouse

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def root_file_system(name: str, architecture: str = "") -> Path:
    """Returns the folder of the root file system `name` (a key of `RECIPES`). Creates it and its base if the cache does not have them.

    Args:
        architecture: another than this machine's.
    """
    recipe = RECIPES[name]
    architecture = architecture or host()
    folder = cache_folder() / "rootfs"
    final_name = "-".join(
        [name, SUITE, recipe_hash(recipe), *([architecture] if architecture != host() else [])]
    )
    if not (folder / final_name).exists():
        require_tools("debootstrap", "chroot", "unshare")
        require_emulation(architecture)
        parent = root_file_system(recipe.parent, architecture) if recipe.parent else None
        print(
            f"making the root file system {final_name} ({', '.join(recipe.packages)})",
            file=sys.stderr,
            flush=True,
        )
        entry(folder, final_name, lambda root: _make(recipe, parent, root, architecture))
    return folder / final_name


def _make(recipe: Recipe, parent: Path | None, root: Path, architecture: str) -> None:
    if parent is None:
        _bootstrap(recipe, root, architecture)
    else:
        _copy(parent, root)
        _install(recipe, root)
    if recipe.requirements:
        python = root_file_system("python")
        install_wheels(recipe.requirements, wheelhouse((recipe.requirements,), python), root)
    for pattern in recipe.remove:
        for path in list(root.glob(pattern)):
            remove(path)
    if recipe.warm_up:
        _keep_only_needed_byte_code(recipe, root)


def _copy(parent: Path, root: Path) -> None:
    """Copies the tree but hard-links files below /usr, most of a gigabyte. dpkg and Python replace such files and never write into them."""
    root.mkdir(mode=0o755)
    for child in parent.iterdir():
        sharing = ["--link"] if child.name == "usr" else ["--reflink=auto"]
        run(["cp", "-a", *sharing, str(child), str(root)])


def _bootstrap(recipe: Recipe, root: Path, architecture: str) -> None:
    """Runs debootstrap with the machine's mirror, and verifies against Debian's keyring if the machine has it."""
    command = ["debootstrap", "--variant=minbase", f"--arch={architecture}"]
    command.append(f"--include={','.join(recipe.packages)}")
    if KEYRING.is_file():
        command.append(f"--keyring={KEYRING}")
    mirror = apt_sources.mirror()
    run([*command, SUITE, str(root), *([mirror] if mirror else [])])
    for relative in ("etc/hostname", "etc/resolv.conf", *(["etc/apt/sources.list"] if mirror else [])):
        # A bootstrap copies these from this machine. They stay, empty, for what a container's runtime or `_install` mounts over them.
        remove(root / relative)
        (root / relative).touch()


def _install(recipe: Recipe, root: Path) -> None:
    """Runs apt inside `root` with the machine's mirror and settings, and removes these settings afterwards."""
    options = ["-q", "-y", "-o", "APT::Install-Recommends=false"]
    mirror = apt_sources.mirror()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "apt.conf").write_text(apt_sources.acquire_options(), encoding="utf-8")
        if mirror:
            (Path(folder) / "sources.list").write_text(f"deb {mirror} {SUITE} main\n", encoding="utf-8")
            options += ["-o", "Dir::Etc::sourcelist=/mnt/sources.list"]
        environment = {"APT_CONFIG": "/mnt/apt.conf", "DEBIAN_FRONTEND": "noninteractive"}
        for arguments in (["update"], ["install", "--reinstall", *recipe.packages]):
            run_inside(root, ["apt-get", *options, *arguments], {Path(folder): "/mnt"}, environment)


def _keep_only_needed_byte_code(recipe: Recipe, root: Path) -> None:
    for folder in list((root / "usr/lib").glob("**/__pycache__")):
        remove(folder)
    run_inside(root, ["python3", "-c", recipe.warm_up])
