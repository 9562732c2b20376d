"""Builds a release into a folder, part by part."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from hack.release.chart import build_chart
from hack.release.checksums import SUMS, sign, write_checksums
from hack.release.distributions import ROOT, build_distributions
from hack.release.failure import ReleaseError
from hack.release.images import build_images
from hack.release.kubectl_plugin import build_plugin
from hack.release.oci_layout import ENDING
from hack.release.sbom import write_archive_document, write_image_documents
from hack.release.signatures import sign_images
from hack.release.version import CHANGELOG, check_version


def build_release(folder: Path, version: str, epoch: int, key: Path | None) -> None:
    """Builds everything that a release consists of.

    Args:
        folder: does not exist, or is an earlier release, which is replaced.
        version: the tree's.
        epoch: time of all files, in seconds since 1970. Equal trees, times and base images give equal files, except signatures.
        key: a private key in PEM, which signs the checksums, the images and the chart; None for no signature.

    Raises:
        ReleaseError, ImageError, ClusterError: a part cannot be built; the message says why.
    """
    check_version(version)
    if folder.exists() and not (folder / SUMS).exists():
        raise ReleaseError(f"{folder} exists and is no release: name another folder, or remove it")
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    _build_parts(partial, version, epoch)
    write_checksums(partial)
    if key is not None:
        sign_release(partial, key, epoch)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def sign_release(folder: Path, key: Path, epoch: int) -> None:
    """Signs the checksums, the images and the chart of a release that was built without a key.

    Args:
        folder: of the release.
        key: a private key in PEM.
        epoch: time of the files in the layouts of signatures, in seconds since 1970.

    Raises:
        ReleaseError: openssl is not installed, or cannot use the key.
    """
    sign(folder / SUMS, key)
    sign_images(folder, key, epoch)


def _build_parts(folder: Path, version: str, epoch: int) -> None:
    _say("wheels and source distributions")
    build_distributions(folder, epoch)
    _say("images")
    digests = build_images(folder, version, epoch)
    _say("chart and CRDs")
    build_chart(folder, digests, epoch)
    crds = (file.read_text(encoding="utf-8") for file in sorted((ROOT / "crds").glob("*.yaml")))
    (folder / "laneway-crds.yaml").write_text("---\n".join(crds), encoding="utf-8")
    _say("kubectl-laneway")
    build_plugin(folder, folder, version, epoch)
    _say("bills of materials")
    for name in digests:
        write_image_documents(folder / f"laneway-{name}{ENDING}", folder, version, epoch)
    for archive in sorted(folder.glob("kubectl-laneway_*.tar.gz")):
        write_archive_document(archive, folder, version, epoch)
    shutil.copyfile(CHANGELOG, folder / CHANGELOG.name)


def _say(part: str) -> None:
    print(f"release: {part}", file=sys.stderr, flush=True)
