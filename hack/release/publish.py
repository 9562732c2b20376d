"""Pushes a release's images, chart and their signatures to a registry, with crane and the credentials of `docker login`."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hack.cluster.build import built
from hack.release.failure import ReleaseError, run
from hack.release.oci_layout import ENDING, TAG, Descriptor, read_json, write_index

CHART_REPOSITORY = "laneway/charts/laneway"
SIGNATURES = ".signatures"
"""Between a layout's name and its ending, where it holds the signatures of that layout."""


def publish(folder: Path, registry: str, version: str, *, insecure: bool = False) -> dict[str, str]:
    """Pushes the layouts of `folder` with their tags; returns the digests by reference.

    Args:
        folder: of the release.
        registry: its host, with a path for registries that have one: `registry.example.com/team`.
        version: of the release.
        insecure: over HTTP.

    Raises:
        ReleaseError: there is no layout of the version, or the registry refuses one, or gives it another digest.
    """
    archives = sorted(folder.glob(f"laneway-*{ENDING}"))
    if not any(version in _manifests(archive) for archive in archives):
        raise ReleaseError(f"{folder} holds no release {version}: run `make release VERSION={version}` first")
    return {
        reference: digest
        for archive in archives
        for reference, digest in _push(archive, f"{registry}/{repository(archive)}", insecure)
    }


def repository(archive: Path) -> str:
    """Returns where a release's layout, or that of its signatures, belongs in a registry."""
    name = archive.name.removesuffix(ENDING).removesuffix(SIGNATURES).removeprefix("laneway-")
    return CHART_REPOSITORY if name == "chart" else f"laneway/{name}"


def _manifests(archive: Path) -> dict[str, Descriptor]:
    """Returns what a layout holds, by tag."""
    with tarfile.open(archive) as layout:
        return {named["annotations"][TAG]: named for named in read_json(layout)["manifests"]}


def _push(archive: Path, repository: str, insecure: bool) -> Iterator[tuple[str, str]]:
    crane: list[str | Path] = [built("crane"), *(["--insecure"] if insecure else [])]
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        with tarfile.open(archive) as layout:
            layout.extractall(scratch, filter="data")
        for tag, named in _manifests(archive).items():
            reference, digest = f"{repository}:{tag}", named["digest"]
            write_index(Path(scratch), [named])
            run([*crane, "push", scratch, reference])
            there = run([*crane, "digest", reference]).strip()
            if there != digest:
                raise ReleaseError(
                    f"{reference} has the digest {there} in the registry, and {digest} in {archive}"
                )
            yield reference, digest
