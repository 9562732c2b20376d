"""What a bill of materials names, read back by another part of the library that wrote it."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from spdx_tools.spdx.model.document import Document
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from hack.release.archive import write_tar
from hack.release.oci_layout import Layout
from hack.release.sbom import write_archive_document, write_image_documents

EPOCH = 1_700_000_000
STATUS = """\
Package: libc6
Status: install ok installed
Architecture: arm64
Version: 2.41-12+deb13u1
Description: GNU C Library
 a further line

Package: libstdc++6
Status: install ok installed
Architecture: arm64
Version: 1:14.2.0-19

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1
"""
OLD_STATUS = STATUS.replace("2.41-12+deb13u1", "2.41-11")
METADATA = "Metadata-Version: 2.4\nName: Some.Package\nVersion: 1.2\nLicense-Expression: MIT OR Apache-2.0\n\n# Some package\n"
UNKNOWN = "Metadata-Version: 2.4\nName: other\nVersion: 3\nLicense-Expression: Nonsense\n"
EGG = "Metadata-Version: 2.1\nName: egg\nVersion: 4\n"
SINGLE_EGG = "Metadata-Version: 2.1\nName: single_egg\nVersion: 5\n"
SITE = "opt/venv/lib/python3.13/site-packages"


def layer(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(buffer.getvalue())


def image(folder: Path) -> Path:
    layout = Layout(folder / "layout")
    layers = [
        layer({"var/lib/dpkg/status": OLD_STATUS}),
        layer({"./var/lib/dpkg/status": STATUS, f"{SITE}/some_package-1.2.dist-info/METADATA": METADATA}),
        layer({f"{SITE}/egg-4.egg-info/PKG-INFO": EGG, f"{SITE}/single_egg-5.egg-info": SINGLE_EGG}),
    ]
    added = [layout.add("application/vnd.oci.image.layer.v1.tar+gzip", each) for each in layers]
    config = layout.add("application/vnd.oci.image.config.v1+json", b"{}")
    manifest = layout.add_manifest(config, added, {}) | {"platform": {"architecture": "arm64", "os": "linux"}}
    layout.write(folder / "laneway-operator.oci.tar", "1.0", layout.add_index([manifest], {}), EPOCH)
    return folder / "laneway-operator.oci.tar"


def parts(document: Document) -> dict[str, str]:
    return {each.external_references[0].locator: str(each.license_declared) for each in document.packages[1:]}


def read(file: Path) -> Document:
    document = parse_file(str(file))
    assert validate_full_spdx_document(document) == []
    return document


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sbom").mkdir()
    return tmp_path / "sbom"


def test_an_images_packages_are_those_of_its_last_layers(tmp_path: Path, folder: Path) -> None:
    write_image_documents(image(tmp_path), folder, "1.0", EPOCH)
    document = read(folder / "laneway-operator-arm64.spdx.json")
    assert parts(document) == {
        "pkg:deb/debian/libc6@2.41-12%2Bdeb13u1?arch=arm64": "NOASSERTION",
        "pkg:deb/debian/libstdc%2B%2B6@1:14.2.0-19?arch=arm64": "NOASSERTION",
        "pkg:pypi/egg@4": "NOASSERTION",
        "pkg:pypi/single-egg@5": "NOASSERTION",
        "pkg:pypi/some-package@1.2": "MIT OR Apache-2.0",
    }
    assert (document.packages[0].name, document.packages[0].version) == ("laneway-operator-arm64", "1.0")


def test_an_archives_packages_are_pythons(tmp_path: Path, folder: Path) -> None:
    archive = tmp_path / "kubectl-laneway_linux_amd64.tar.gz"
    write_tar(archive, {"lib/other-3.dist-info/METADATA": UNKNOWN.encode(), "lib/other.py": b""}, EPOCH)
    write_archive_document(archive, folder, "1.0", EPOCH)
    document = read(folder / "kubectl-laneway_linux_amd64.spdx.json")
    assert parts(document) == {"pkg:pypi/other@3": "NOASSERTION"}
