"""Creates Debian root file systems in the cache: base images of the container images, and a place to run PyTorch on a CPU.

debootstrap ─▶ python ─▶ copy + apt ─▶ examples ─▶ copy + apt + wheels ─▶ frameworks

Equal packages give equal files. Only the times of files differ that were made here; a base image has one time for all. Byte code names no
times, so that it holds there.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from hack.cluster.cache import cache_folder
from hack.images import apt_sources
from hack.images.apt import apt_get
from hack.images.architectures import host
from hack.images.cache import entry, remove
from hack.images.chroot import require_tools, run, run_inside
from hack.images.foreign import unpack
from hack.images.recipes import MADE, RECIPES, SUITE, Recipe, recipe_hash
from hack.images.wheels import install_wheels, wheelhouse

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

_WITHOUT_TIMES = """
import importlib.util, pathlib, py_compile
for cached in sorted(pathlib.Path("/usr").rglob("*.pyc")):
    source = importlib.util.source_from_cache(cached)
    py_compile.compile(source, cached, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
"""


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
        native = root_file_system(name) if architecture != host() else None
        parent = root_file_system(recipe.parent, architecture) if recipe.parent else None
        print(
            f"making the root file system {final_name} ({', '.join(recipe.packages)})",
            file=sys.stderr,
            flush=True,
        )
        entry(folder, final_name, lambda root: _make(recipe, parent, root, architecture, native))
    return folder / final_name


def _make(recipe: Recipe, parent: Path | None, root: Path, architecture: str, native: Path | None) -> None:
    if parent is not None:
        _copy(parent, root)
    if native is not None:
        root.mkdir(mode=0o755, exist_ok=True)
        unpack(recipe, root, architecture, native)
    elif parent is None:
        _bootstrap(recipe, root)
    else:
        _install(recipe, root)
    if recipe.requirements:
        python = root_file_system("python")
        install_wheels(recipe.requirements, wheelhouse((recipe.requirements,), python), root)
    for pattern in recipe.remove:
        for path in list(root.glob(pattern)):
            remove(path)
    if native is None:
        _make_byte_code(recipe, root)


def _copy(parent: Path, root: Path) -> None:
    """Copies the tree but hard-links files below /usr, most of a gigabyte. dpkg and Python replace such files and never write into them."""
    root.mkdir(mode=0o755)
    for child in parent.iterdir():
        sharing = ["--link"] if child.name == "usr" else ["--reflink=auto"]
        run(["cp", "-a", *sharing, str(child), str(root)])


def _bootstrap(recipe: Recipe, root: Path) -> None:
    """Runs debootstrap with the machine's mirror, and verifies against Debian's keyring if the machine has it."""
    command = ["debootstrap", "--variant=minbase", f"--arch={host()}"]
    command.append(f"--include={','.join(recipe.packages)}")
    if KEYRING.is_file():
        command.append(f"--keyring={KEYRING}")
    mirror = apt_sources.mirror()
    # The time of its users' passwords in /etc/shadow.
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(MADE)}
    run([*command, SUITE, str(root), *([mirror] if mirror else [])], environment)
    for relative in ("etc/hostname", "etc/resolv.conf", *(["etc/apt/sources.list"] if mirror else [])):
        # A bootstrap copies these from this machine. They stay, empty, for what a container's runtime or `_install` mounts over them.
        remove(root / relative)
        (root / relative).touch()


def _install(recipe: Recipe, root: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        apt_get(root, Path(folder), ["install", "--reinstall", *recipe.packages])


def _make_byte_code(recipe: Recipe, root: Path) -> None:
    """Keeps byte code of the modules that `warm_up` imports, of all where it is empty, without the times of their sources."""
    if recipe.warm_up:
        for folder in list((root / "usr/lib").glob("**/__pycache__")):
            remove(folder)
        run_inside(root, ["python3", "-c", recipe.warm_up])
    run_inside(root, ["python3", "-c", _WITHOUT_TIMES], environment={"PYTHONHASHSEED": "0"})
