"""Builds the Dockerfile's targets with buildah, where there is neither a Docker engine nor a registry of images.

    root file system ─▶ base image ┐
    wheels (a mounted folder) ─────┴▶ buildah bud, cached by layer ─▶ OCI archive

buildah keeps its layers in the cache folder, apart from those of the machine's own user. It runs in a mount namespace of its own, so a build
that is killed leaves no mount.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hack.cluster.cache import cache_folder, exclusive
from hack.images.architectures import host
from hack.images.chroot import ImageError, require_tools, run
from hack.images.recipes import MADE, RECIPES, recipe_hash
from hack.images.rootfs import root_file_system
from hack.images.targets import ROOT, Target
from hack.images.wheels import wheelhouse

# $1: the root file system; $2: the image's name; $3: its architecture; $4: the time of its files; then buildah's own command. A root file system's devices are for chroot.
_MAKE_BASE_IMAGE = """
root=$1 name=$2 architecture=$3 made=$4; shift 4
container=$("$@" from scratch)
mounted=$("$@" mount "$container")
cp -a "$root/." "$mounted"
find "$mounted/dev" -mindepth 1 -delete
"$@" config --arch "$architecture" --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin --env LANG=C.UTF-8 "$container"
"$@" commit --rm --format oci --timestamp "$made" "$container" "$name"
"""


class Buildah:
    """An `Engine` over the program `buildah`."""

    name = "buildah"

    def __init__(self) -> None:
        require_tools("buildah", "unshare")
        self._storage = cache_folder() / "containers"

    def circumstances(self, target: Target, architecture: str) -> str:
        """Returns the inputs of an image that are not files of the tree."""
        words = ["buildah", recipe_hash(RECIPES[target.base])]
        words += [architecture] if architecture != host() else []
        words += [epoch] if (epoch := os.environ.get("SOURCE_DATE_EPOCH")) else []
        return " ".join(words)

    def build(self, target: Target, architecture: str, archive: Path) -> None:
        """Builds one target and writes it as an OCI archive. SOURCE_DATE_EPOCH is the time of its files, as in reproducible builds."""
        with exclusive(cache_folder() / "locks" / "buildah.lock"):
            self._run("rm", "--all")  # what an interrupted build left
            base = self._base_image(target.base, architecture)
            command = ["bud", "--isolation=chroot", "--layers", "--pull-never", "--format=oci"]
            # Not --platform, with which buildah 1.28 does not find a local base image of a stage for another platform.
            command += [f"--target={target.name}", f"--build-arg=TARGETARCH={architecture}"]
            command.append(f"--build-arg=TARGETPLATFORM=linux/{architecture}")
            command += [f"--build-arg={'EXAMPLES_BASE' if target.base == 'examples' else 'BASE'}={base}"]
            if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
                command += [f"--timestamp={epoch}", "--no-cache"]  # layers in the cache have other times
            if target.tools:
                command += self._build_stages(target, architecture)
            self._run(*command, f"--tag={target.reference}", str(ROOT))
            self._run("push", target.reference, f"oci-archive:{archive}:{target.reference}")

    def _build_stages(self, target: Target, architecture: str) -> list[str]:
        """Returns options for stages that run on this machine and install wheels from folders."""
        python = root_file_system("python")
        folders = {"/mnt/tools": wheelhouse(target.tools, python)}
        if target.requirements:
            folders["/mnt/wheels"] = wheelhouse(target.requirements, python, architecture)
        options = [f"--volume={folder}:{inside}:ro" for inside, folder in folders.items()]
        options += [f"--build-arg=BUILD_BASE={self._base_image('python', host())}"]
        return [*options, "--build-arg=PIP_NO_INDEX=1", f"--build-arg=PIP_FIND_LINKS={' '.join(folders)}"]

    def _base_image(self, recipe_name: str, architecture: str) -> str:
        """Returns the name of the base image for a root file system."""
        root = root_file_system(recipe_name, architecture)
        name = f"localhost/laneway-base/{recipe_name}-{architecture}:{recipe_hash(RECIPES[recipe_name])}"
        if self._has(name):
            return name
        print(f"making the base image {name}", file=sys.stderr, flush=True)
        # One shell for all steps: what buildah mounts is there for this mount namespace only.
        arguments = [str(root), name, architecture, str(MADE), *self._buildah()]
        run(["sh", "-euc", _MAKE_BASE_IMAGE, "make", *arguments])
        return name

    def _has(self, name: str) -> bool:
        try:
            self._run("inspect", "--type=image", "--format={{.FromImageID}}", name)
        except ImageError:
            return False
        return True

    def _run(self, *arguments: str) -> None:
        run([*self._buildah(), *arguments])

    def _buildah(self) -> list[str]:
        return ["buildah", f"--root={self._storage / 'storage'}", f"--runroot={self._storage / 'run'}"]
