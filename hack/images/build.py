"""Builds images into archives in the cache. An archive's name holds the hash of its inputs, so an unchanged image is not built again."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hack.cluster.cache import cache_folder
from hack.images.architectures import host
from hack.images.buildah import Buildah
from hack.images.cache import entry, keep_newest
from hack.images.chroot import ImageError
from hack.images.docker import Docker
from hack.images.targets import TARGETS, Target, content_hash

ENGINES = ("docker", "podman", "buildah")
KEPT_ARCHIVES = 2
"""Archives kept per image: this tree's, and one for a second checkout."""


class Engine(Protocol):
    """Builds a target of the Dockerfile."""

    name: str

    def circumstances(self, target: Target, architecture: str) -> str:
        """The inputs of the image that are not files of the tree."""

    def build(self, target: Target, architecture: str, archive: Path) -> None:
        """Builds `target` for an architecture and writes it to the file `archive`."""


@dataclass(frozen=True)
class BuiltImage:
    """One image in an archive. `content` changes with the image."""

    name: str
    reference: str
    archive: Path
    content: str


def choose_engine() -> Engine:
    """Returns `$LANEWAY_IMAGE_ENGINE`, otherwise the first of Docker, Podman and buildah on this machine."""
    chosen = os.environ.get("LANEWAY_IMAGE_ENGINE", "").strip()
    if chosen and chosen not in ENGINES:
        raise ImageError(f"LANEWAY_IMAGE_ENGINE is {chosen!r}: write one of {', '.join(ENGINES)}")
    if not chosen:
        chosen = next((program for program in ("docker", "podman") if Docker.is_there(program)), "buildah")
    return Buildah() if chosen == "buildah" else Docker(chosen)


def build(names: Sequence[str] = (), architecture: str = "") -> list[BuiltImage]:
    """Builds the named targets, or all, unless the cache has them. Progress goes to stderr.

    Args:
        names: keys of `TARGETS`.
        architecture: another than this machine's.
    """
    engine = choose_engine()
    print(f"images: built with {engine.name}", file=sys.stderr, flush=True)
    return [_built(TARGETS[name], architecture or host(), engine) for name in names or TARGETS]


def _built(target: Target, architecture: str, engine: Engine) -> BuiltImage:
    folder = cache_folder() / "images" / (architecture if architecture != host() else "")
    content = content_hash(target, engine.circumstances(target, architecture))
    archive = folder / f"{target.name}-{content}.tar"
    if not archive.exists():
        began = time.monotonic()
        print(f"images: building {target.reference}", file=sys.stderr, flush=True)
        entry(folder, archive.name, lambda partial: engine.build(target, architecture, partial))
        print(
            f"images: {target.reference} took {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True
        )
    os.utime(archive)
    keep_newest(folder, f"{target.name}-*.tar", KEPT_ARCHIVES)
    return BuiltImage(target.name, target.reference, archive, content)


def copy_to(folder: Path, images: Sequence[BuiltImage]) -> None:
    """Puts the archives into `folder`, as `<name>.tar`."""
    folder.mkdir(parents=True, exist_ok=True)
    for image in images:
        partial = folder / f".{image.name}.tar.new"
        partial.unlink(missing_ok=True)
        try:
            os.link(image.archive, partial)
        except OSError:  # another file system
            shutil.copyfile(image.archive, partial)
        partial.replace(folder / f"{image.name}.tar")
