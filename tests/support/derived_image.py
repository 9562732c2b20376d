"""An image on top of another, as `FROM base`, `ENV …`, `COPY …` would make it: from archive to archive, whichever engine built the base."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"


def derive(
    base: Path, archive: Path, reference: str, environment: Mapping[str, str], files: Mapping[str, str]
) -> str:
    """Write an OCI archive of an image; return the digest of its manifest.

    Args:
        base: an OCI archive of one image.
        archive: is written.
        reference: the image's name in full.
        environment: what the image sets beside what its base sets.
        files: their text by path.
    """
    with tarfile.open(base) as source, tarfile.open(archive, "w") as target:
        for member in source:
            if member.name.startswith("blobs/") and member.isfile():
                target.addfile(member, source.extractfile(member))
        manifest = _json(source, "index.json")["manifests"][0]
        while manifest["mediaType"] != _MANIFEST:  # an index of one platform, as Docker writes it
            manifest = _blob(source, manifest)["manifests"][0]
        image = _blob(source, manifest)
        config = _blob(source, image["config"])

        layer = _layer(files)
        config["rootfs"]["diff_ids"].append(_digest(layer))
        config.get("history", []).append({"created_by": "COPY"})
        config["config"].setdefault("Env", []).extend(f"{name}={text}" for name, text in environment.items())
        image["layers"].append(_added(target, layer, _LAYER))
        image["config"] = _added(target, json.dumps(config).encode(), image["config"]["mediaType"])
        named = _added(target, json.dumps(image).encode(), _MANIFEST)
        named["annotations"] = {"org.opencontainers.image.ref.name": reference}
        index = {"schemaVersion": 2, "manifests": [named]}
        _add(target, "index.json", json.dumps(index).encode())
        _add(target, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
    digest: str = named["digest"]
    return digest


def _json(archive: tarfile.TarFile, name: str) -> dict[str, Any]:
    file = archive.extractfile(name)
    assert file is not None, name
    document: dict[str, Any] = json.load(file)
    return document


def _blob(archive: tarfile.TarFile, descriptor: Mapping[str, Any]) -> dict[str, Any]:
    return _json(archive, f"blobs/{descriptor['digest'].replace(':', '/')}")


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _added(archive: tarfile.TarFile, content: bytes, media_type: str) -> dict[str, Any]:
    digest = _digest(content)
    _add(archive, f"blobs/{digest.replace(':', '/')}", content)
    return {"mediaType": media_type, "digest": digest, "size": len(content)}


def _layer(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for path, text in files.items():
            _add(layer, path.lstrip("/"), text.encode())
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o644
    archive.addfile(entry, io.BytesIO(content))
