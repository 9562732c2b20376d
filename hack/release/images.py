"""The images of a release: one OCI layout each, with one image for each architecture."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from hack.images.build import build
from hack.images.targets import REGISTRY, TARGETS
from hack.release.oci_layout import ENDING, Layout

LIST = "images.txt"
ARCHITECTURES = ("amd64", "arm64")


def build_images(
    folder: Path,
    version: str,
    epoch: int,
    names: Sequence[str] = tuple(TARGETS),
    architectures: Sequence[str] = ARCHITECTURES,
) -> dict[str, str]:
    """Puts `laneway-NAME.oci.tar` for each image and the list `images.txt` into `folder`; returns their digests by name.

    The environment's SOURCE_DATE_EPOCH is the time of the images' own files.

    Args:
        folder: must exist.
        version: the images' tag.
        epoch: time of the files in the layouts, in seconds since 1970.
        names: of the images.
        architectures: for which they are built.

    Raises:
        ImageError: one cannot be built here; the message says why.
    """
    archives: dict[str, list[Path]] = {name: [] for name in names}
    for architecture in architectures:
        for image in build(names, architecture):
            archives[image.name].append(image.archive)
    digests = {name: _index(name, built, folder, version, epoch) for name, built in archives.items()}
    lines = (f"{REGISTRY}/laneway/{name}:{version}@{digest}\n" for name, digest in digests.items())
    (folder / LIST).write_text("".join(lines), encoding="utf-8")
    return digests


def _index(name: str, archives: list[Path], folder: Path, version: str, epoch: int) -> str:
    """Writes one layout; returns the digest of its index."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        layout = Layout(Path(scratch) / "layout")
        manifests = [layout.add_image(archive) for archive in archives]
        annotations = {
            "org.opencontainers.image.title": f"laneway-{name}",
            "org.opencontainers.image.version": version,
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.source": "https://github.com/laneway/laneway",
        }
        return layout.write(
            folder / f"laneway-{name}{ENDING}", version, layout.add_index(manifests, annotations), epoch
        )
