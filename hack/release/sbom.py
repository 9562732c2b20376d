"""Bills of materials: the packages in each image and archive of a release, as SPDX 2.3 documents in JSON.

They name what is there: Debian's packages by the status file of dpkg, Python packages by their metadata.
"""

from __future__ import annotations

import email
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from license_expression import ExpressionError, LicenseExpression, get_spdx_licensing
from packaging.utils import canonicalize_name
from spdx_tools.spdx.model.actor import Actor, ActorType
from spdx_tools.spdx.model.document import CreationInfo, Document
from spdx_tools.spdx.model.package import ExternalPackageRef, ExternalPackageRefCategory, Package
from spdx_tools.spdx.model.relationship import Relationship, RelationshipType
from spdx_tools.spdx.model.spdx_no_assertion import SpdxNoAssertion
from spdx_tools.spdx.writer.write_anything import write_file

from hack.release.oci_layout import ENDING, open_blob, read_json

NAMESPACE = "https://github.com/laneway/laneway/spdx"
DPKG_STATUS = "var/lib/dpkg/status"
PYTHON_METADATA = (".dist-info/METADATA", ".egg-info/PKG-INFO", ".egg-info")
"""Ends of the names of files with a Python package's metadata: an egg's is a folder or that file itself."""


@dataclass(frozen=True, order=True)
class Found:
    """A package. `purl` names it and its version: https://github.com/package-url/purl-spec"""

    name: str
    version: str
    purl: str
    licence: str = ""
    """An SPDX expression; empty where the package states none."""


def write_image_documents(archive: Path, folder: Path, version: str, epoch: int) -> None:
    """Writes `NAME-ARCHITECTURE.spdx.json` for each image of an OCI layout in a tar archive."""
    with tarfile.open(archive) as layout:
        index = read_json(layout, read_json(layout)["manifests"][0]["digest"])
        for named in index["manifests"]:
            found: dict[str, set[Found]] = {}
            for layer in read_json(layout, named["digest"])["layers"]:
                with (
                    open_blob(layout, layer["digest"]) as blob,
                    tarfile.open(fileobj=blob, mode="r|*") as files,
                ):
                    found |= packages(files)
            name = f"{archive.name.removesuffix(ENDING)}-{named['platform']['architecture']}"
            inside = {package for of_file in found.values() for package in of_file}
            _write(folder, name, version, f"{NAMESPACE}/{name}/{named['digest']}", inside, epoch)


def write_archive_document(archive: Path, folder: Path, version: str, epoch: int) -> None:
    """Writes the document of an archive with Python packages, named after it."""
    with tarfile.open(archive) as files:
        found = packages(files)
    name = archive.name.removesuffix(".tar.gz")
    inside = {package for of_file in found.values() for package in of_file}
    _write(folder, name, version, f"{NAMESPACE}/{name}/{version}", inside, epoch)


def packages(files: tarfile.TarFile) -> dict[str, set[Found]]:
    """Returns the packages of a file system or of one of its layers, by the file that names them."""
    found = {}
    for member in files:
        name = member.name.removeprefix("./")
        if not member.isfile() or not (name == DPKG_STATUS or name.endswith(PYTHON_METADATA)):
            continue
        file = files.extractfile(member)
        assert file is not None, name
        text = file.read().decode(errors="replace")
        found[name] = set(_debian(text)) if name == DPKG_STATUS else {_python(text)}
    return found


def _debian(status: str) -> Iterator[Found]:
    for stanza in status.split("\n\n"):
        about = email.message_from_string(stanza.lstrip("\n"))
        if about["Status"] == "install ok installed":
            name, version = about["Package"], about["Version"]
            purl = f"pkg:deb/debian/{quote(name)}@{quote(version, safe=':')}?arch={about['Architecture']}"
            yield Found(name, version, purl)


def _python(metadata: str) -> Found:
    about = email.message_from_string(metadata)
    name = canonicalize_name(about["Name"])
    return Found(
        name, about["Version"], f"pkg:pypi/{name}@{about['Version']}", about["License-Expression"] or ""
    )


def _write(folder: Path, name: str, version: str, namespace: str, inside: set[Found], epoch: int) -> None:
    created = datetime.fromtimestamp(epoch, UTC).replace(tzinfo=None)
    whole = Package(
        "SPDXRef-Release",
        name,
        SpdxNoAssertion(),
        version=version,
        files_analyzed=False,
        license_declared=_licence("Apache-2.0"),
    )
    parts = [_package(number, package) for number, package in enumerate(sorted(inside))]
    relationships = [Relationship("SPDXRef-DOCUMENT", RelationshipType.DESCRIBES, whole.spdx_id)]
    relationships += [Relationship(whole.spdx_id, RelationshipType.CONTAINS, part.spdx_id) for part in parts]
    document = Document(
        CreationInfo(
            "SPDX-2.3",
            "SPDXRef-DOCUMENT",
            name,
            namespace,
            [Actor(ActorType.TOOL, "laneway-release")],
            created,
        ),
        packages=[whole, *parts],
        relationships=relationships,
    )
    write_file(document, str(folder / f"{name}.spdx.json"))


def _package(number: int, found: Found) -> Package:
    return Package(
        f"SPDXRef-{number}-{re.sub(r'[^A-Za-z0-9.-]', '-', found.name)}",
        found.name,
        SpdxNoAssertion(),
        version=found.version,
        files_analyzed=False,
        license_declared=_licence(found.licence),
        external_references=[
            ExternalPackageRef(ExternalPackageRefCategory.PACKAGE_MANAGER, "purl", found.purl)
        ],
    )


def _licence(expression: str) -> LicenseExpression | SpdxNoAssertion:
    try:
        return get_spdx_licensing().parse(expression, validate=True) if expression else SpdxNoAssertion()
    except ExpressionError:
        return SpdxNoAssertion()
