"""Pushes a release's images and chart to a registry, with crane and the credentials of `docker login`."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path

from hack.cluster.build import built
from hack.release.failure import ReleaseError, run
from hack.release.oci_layout import ENDING, read_json

CHART_REPOSITORY = "laneway/charts/laneway"


def publish(folder: Path, registry: str, version: str, *, insecure: bool = False) -> dict[str, str]:
    """Pushes the layouts of `folder` as tag `version`; returns the digests by reference.

    Args:
        folder: of the release.
        registry: its host, with a path for registries that have one: `registry.example.com/team`.
        version: of the release.
        insecure: over HTTP.

    Raises:
        ReleaseError: there is no layout, or the registry refuses one, or gives it another digest.
    """
    archives = sorted(folder.glob(f"laneway-*{ENDING}"))
    if not archives:
        raise ReleaseError(f"{folder} holds no release: run `make release VERSION={version}` first")
    return dict(
        _push(archive, f"{registry}/{_repository(archive)}:{version}", insecure) for archive in archives
    )


def _repository(archive: Path) -> str:
    name = archive.name.removesuffix(ENDING).removeprefix("laneway-")
    return CHART_REPOSITORY if name == "chart" else f"laneway/{name}"


def _push(archive: Path, reference: str, insecure: bool) -> tuple[str, str]:
    crane: list[str | Path] = [built("crane"), *(["--insecure"] if insecure else [])]
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch, tarfile.open(archive) as layout:
        layout.extractall(scratch, filter="data")
        digest: str = read_json(layout)["manifests"][0]["digest"]
        run([*crane, "push", scratch, reference])
    there = run([*crane, "digest", reference]).strip()
    if there != digest:
        raise ReleaseError(f"{reference} has the digest {there} in the registry, and {digest} in {archive}")
    return reference, digest
