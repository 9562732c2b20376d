"""Signatures of a release's images and chart, as cosign finds them beside an image in a registry.

A signature is an artifact with the tag `sha256-DIGEST.sig` in the repository of what it signs. Its one layer is a text with the digest:
https://github.com/sigstore/cosign/blob/main/specs/SIGNATURE_SPEC.md
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hack.images.targets import REGISTRY
from hack.release.checksums import signature
from hack.release.oci_layout import ENDING, INDEX, Descriptor, Layout, read_json
from hack.release.publish import SIGNATURES, repository

PAYLOAD = "application/vnd.dev.cosign.simplesigning.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
ANNOTATION = "dev.cosignproject.cosign/signature"


def sign_images(folder: Path, key: Path, epoch: int) -> None:
    """Writes `laneway-NAME.signatures.oci.tar` for each layout of a release, which `publish` pushes with it.

    It holds signatures of the layout's image as a whole and of the image of each architecture, because clients check one or the other.

    Args:
        folder: of the release.
        key: a private key in PEM.
        epoch: time of the files in the layouts, in seconds since 1970.

    Raises:
        ReleaseError: openssl is not installed, or cannot use the key.
    """
    for archive in sorted(folder.glob(f"laneway-*{ENDING}")):
        if archive.name.endswith(f"{SIGNATURES}{ENDING}"):
            continue  # of an earlier signing
        with tarfile.open(archive) as signed:
            digests = list(_digests(signed))
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            layout = Layout(Path(scratch) / "layout")
            reference = f"{REGISTRY}/{repository(archive)}"
            tags = {
                f"{digest.replace(':', '-')}.sig": _add(layout, reference, digest, key) for digest in digests
            }
            layout.write_all(folder / f"{archive.name.removesuffix(ENDING)}{SIGNATURES}{ENDING}", tags, epoch)


def _digests(layout: tarfile.TarFile) -> Iterator[str]:
    for named in read_json(layout)["manifests"]:
        yield named["digest"]
        if named["mediaType"] == INDEX:
            yield from (each["digest"] for each in read_json(layout, named["digest"])["manifests"])


def _add(layout: Layout, reference: str, digest: str, key: Path) -> Descriptor:
    critical = {
        "identity": {"docker-reference": reference},
        "image": {"docker-manifest-digest": digest},
        "type": "cosign container image signature",
    }
    payload = layout.add(PAYLOAD, json.dumps({"critical": critical, "optional": None}).encode())
    annotations = {ANNOTATION: signature(layout.blob(payload["digest"]), key)}
    config = {
        "architecture": "",
        "os": "",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [payload["digest"]]},
    }
    described = layout.add(CONFIG, json.dumps(config).encode())
    return layout.add_manifest(described, [{**payload, "annotations": annotations}], {})
