"""OCI image layouts: https://github.com/opencontainers/image-spec/blob/main/image-layout.md

A layout holds blobs by digest, and an index that names one of them with a tag. skopeo, crane, oras, ctr and Docker read it from a folder
or from a tar archive.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from hack.release.archive import tree, write_tar
from hack.release.failure import ReleaseError

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
TAG = "org.opencontainers.image.ref.name"
"""The annotation with the tag, in a layout's index."""
ENDING = ".oci.tar"
"""Of the name of an archive with a layout."""

Descriptor = dict[str, Any]


class Layout:
    """A layout in a folder, which grows by blobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "blobs" / "sha256").mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}\n', encoding="utf-8")

    def add(self, media_type: str, content: bytes) -> Descriptor:
        """Adds a blob; returns what names it."""
        digest = hashlib.sha256(content).hexdigest()
        (self.folder / "blobs" / "sha256" / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def add_manifest(
        self, config: Descriptor, layers: Sequence[Descriptor], annotations: Mapping[str, str]
    ) -> Descriptor:
        """Adds the manifest of an image or an artifact."""
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": list(layers)}
        return self.add(MANIFEST, _json({**manifest, "annotations": dict(annotations)}))

    def add_index(self, manifests: Sequence[Descriptor], annotations: Mapping[str, str]) -> Descriptor:
        """Adds the index of an image's manifests, one for each platform."""
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(manifests)}
        return self.add(INDEX, _json({**index, "annotations": dict(annotations)}))

    def add_image(self, archive: Path) -> Descriptor:
        """Adds the image of an OCI archive; returns its manifest's descriptor with its platform.

        Raises:
            ReleaseError: the archive holds another number of images than one.
        """
        with tarfile.open(archive) as source:
            for member in source:
                if member.isfile() and member.name.startswith("blobs/sha256/"):
                    self._extract(source, member)
            manifests = read_json(source)["manifests"]
            if len(manifests) != 1:
                raise ReleaseError(f"{archive} holds {len(manifests)} images: one is needed")
        named = manifests[0]
        while named["mediaType"] == INDEX:  # of one platform, as Docker writes it
            named = self.read(named["digest"])["manifests"][0]
        config = self.read(self.read(named["digest"])["config"]["digest"])
        platform = {name: config[name] for name in ("architecture", "os", "variant") if config.get(name)}
        return {name: named[name] for name in ("mediaType", "digest", "size")} | {"platform": platform}

    def read(self, digest: str) -> dict[str, Any]:
        """Returns a blob that is JSON."""
        document: dict[str, Any] = json.loads(self.blob(digest).read_bytes())
        return document

    def blob(self, digest: str) -> Path:
        """Returns the file of a blob."""
        return self.folder / "blobs" / digest.replace(":", "/")

    def write(self, archive: Path, tag: str, root: Descriptor, epoch: int) -> str:
        """Writes the layout, with `root` tagged, to a tar archive; returns the root's digest."""
        self.write_all(archive, {tag: root}, epoch)
        digest: str = root["digest"]
        return digest

    def write_all(self, archive: Path, tags: Mapping[str, Descriptor], epoch: int) -> None:
        """Writes the layout, with images or artifacts by their tags, to a tar archive."""
        write_index(self.folder, [{**root, "annotations": {TAG: tag}} for tag, root in tags.items()])
        write_tar(archive, tree(self.folder), epoch)

    def _extract(self, source: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        file = source.extractfile(member)
        assert file is not None, member.name
        with file, (self.folder / member.name).open("wb") as target:
            shutil.copyfileobj(file, target)


def write_index(folder: Path, manifests: Sequence[Descriptor]) -> None:
    """Writes the index of the layout in `folder`."""
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(manifests)}
    (folder / "index.json").write_bytes(_json(index))


def read_json(archive: tarfile.TarFile, digest: str = "") -> dict[str, Any]:
    """Returns a blob of a layout in an archive that is JSON; without a digest, the layout's index."""
    with open_blob(archive, digest) as file:
        document: dict[str, Any] = json.load(file)
    return document


def open_blob(archive: tarfile.TarFile, digest: str = "") -> IO[bytes]:
    """Opens a blob of a layout in an archive; without a digest, the layout's index.

    Raises:
        ReleaseError: the archive has no such blob.
    """
    name = f"blobs/{digest.replace(':', '/')}" if digest else "index.json"
    file = archive.extractfile(name) if name in archive.getnames() else None
    if file is None:
        raise ReleaseError(f"{archive.name!r} is no whole OCI layout: it has no file {name}")
    return file


def _json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True).encode()
