"""The chart of a release: names its images by digest, as a package and as an OCI artifact.

helm packs it, so that its rules about a chart's files hold. It writes the present time into each entry of the archive, so the archive is
written again. The artifact is what `helm push` makes of a package, without the time of the push:
https://helm.sh/docs/topics/registries/#helm-chart-manifest
"""

from __future__ import annotations

import json
import re
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from hack.chart.generated import CHART
from hack.cluster.build import built
from hack.release.archive import write_tar
from hack.release.failure import ReleaseError, run
from hack.release.oci_layout import ENDING, Layout

CONFIG = "application/vnd.cncf.helm.config.v1+json"
CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

_DIGEST = re.compile(r'^ +repository: laneway/(\S+)\n(?: +#.*\n)*? +digest: (?P<value>"")$', re.MULTILINE)


def build_chart(folder: Path, digests: Mapping[str, str], epoch: int) -> str:
    """Puts `laneway-VERSION.tgz` and `laneway-chart.oci.tar`, an OCI layout, into `folder`; returns the artifact's digest.

    Args:
        folder: must exist.
        digests: of the images, by their name behind `laneway/`.
        epoch: time of the files, in seconds since 1970.

    Raises:
        ReleaseError: an image of the chart has no digest, or helm refuses the chart.
    """
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        copy = Path(scratch) / "laneway"
        shutil.copytree(CHART, copy)
        values = copy / "values.yaml"
        values.write_text(with_digests(values.read_text(encoding="utf-8"), digests), encoding="utf-8")
        run([built("helm"), "package", copy, "--destination", scratch])
        (packed,) = Path(scratch).glob("*.tgz")
        package = folder / packed.name
        with tarfile.open(packed) as archive:
            files = {member.name: _content(archive, member) for member in archive if member.isfile()}
        write_tar(package, dict(files), epoch)
        about = yaml.safe_load(files["laneway/Chart.yaml"])
        return _artifact(
            Layout(Path(scratch) / "layout"), package, about, folder / f"laneway-chart{ENDING}", epoch
        )


def with_digests(values: str, digests: Mapping[str, str]) -> str:
    """Returns the text of `values.yaml` with the digest of each image.

    Raises:
        ReleaseError: an image has no digest, or the text no place for one.
    """

    def filled(match: re.Match[str]) -> str:
        if match[1] not in digests:
            raise ReleaseError(
                f"the chart names the image laneway/{match[1]}, which the release does not build"
            )
        return f'{match[0].removesuffix(match["value"])}"{digests[match[1]]}"'

    text, count = _DIGEST.subn(filled, values)
    images = len(re.findall(r"^ +repository: laneway/", values, re.MULTILINE))  # others are not ours to build
    if count != images:
        raise ReleaseError(
            f'charts/laneway/values.yaml has {images} images, and {count} with a line digest: "" below repository: one is needed for each'
        )
    return text


def _artifact(layout: Layout, package: Path, about: Mapping[str, str], archive: Path, epoch: int) -> str:
    config = layout.add(CONFIG, json.dumps(about, sort_keys=True).encode())
    content = layout.add(CONTENT, package.read_bytes())
    annotations = {
        "org.opencontainers.image.title": about["name"],
        "org.opencontainers.image.version": about["version"],
        "org.opencontainers.image.description": about["description"],
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    return layout.write(archive, about["version"], layout.add_manifest(config, [content], annotations), epoch)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None, member.name
    return file.read()
