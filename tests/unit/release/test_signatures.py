"""Signatures of images, checked with openssl as cosign checks them."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from hack.release.build import sign_release
from hack.release.checksums import SUMS, write_checksums
from hack.release.oci_layout import TAG, Layout, open_blob, read_json
from hack.release.signatures import ANNOTATION, sign_images
from tests.support.release_key import ReleaseKey, throw_away_key

EPOCH = 1_700_000_000
CONFIG = "application/vnd.oci.image.config.v1+json"


@pytest.fixture
def key(tmp_path: Path) -> ReleaseKey:
    return throw_away_key(tmp_path)


@pytest.fixture
def digests(tmp_path: Path) -> dict[str, set[str]]:
    """A release of an image for one architecture, and a chart; the digests to sign, by name."""
    folder = tmp_path / "dist"
    folder.mkdir()
    layout = Layout(tmp_path / "image")
    image = layout.add_manifest(layout.add(CONFIG, b"{}"), [], {})
    index = layout.write(folder / "laneway-operator.oci.tar", "1.0", layout.add_index([image], {}), EPOCH)
    layout = Layout(tmp_path / "chart")
    manifest = layout.add_manifest(layout.add(CONFIG, b"{}"), [layout.add("text", b"a chart")], {})
    chart = layout.write(folder / "laneway-chart.oci.tar", "1.0", manifest, EPOCH)
    return {"operator": {index, image["digest"]}, "chart": {chart}}


def verified(payload: bytes, signature: str, key: ReleaseKey, folder: Path) -> bool:
    (folder / "payload").write_bytes(payload)
    (folder / "signature").write_text(signature, encoding="ascii")
    return key.verifies(folder / "payload", folder / "signature")


@pytest.mark.parametrize(
    ("name", "reference"),
    [("operator", "ghcr.io/laneway/operator"), ("chart", "ghcr.io/laneway/charts/laneway")],
)
def test_each_manifest_has_a_signature(
    tmp_path: Path, key: ReleaseKey, digests: dict[str, set[str]], name: str, reference: str
) -> None:
    sign_images(tmp_path / "dist", key.private, EPOCH)
    signed = set()
    with tarfile.open(tmp_path / f"dist/laneway-{name}.signatures.oci.tar") as layout:
        for named in read_json(layout)["manifests"]:
            (layer,) = read_json(layout, named["digest"])["layers"]
            with open_blob(layout, layer["digest"]) as file:
                payload = file.read()
            assert verified(payload, layer["annotations"][ANNOTATION], key, tmp_path)
            assert not verified(payload + b" ", layer["annotations"][ANNOTATION], key, tmp_path)
            critical = json.loads(payload)["critical"]
            digest = critical["image"]["docker-manifest-digest"]
            assert named["annotations"][TAG] == f"{digest.replace(':', '-')}.sig"
            assert critical["identity"] == {"docker-reference": reference}
            signed.add(digest)
    assert signed == digests[name]


def test_a_release_can_be_signed_where_it_was_not_built(
    tmp_path: Path, key: ReleaseKey, digests: dict[str, set[str]]
) -> None:
    """The job that builds has no key."""
    dist = tmp_path / "dist"
    write_checksums(dist)
    sign_release(dist, key.private, EPOCH)
    assert key.verifies(dist / SUMS, dist / f"{SUMS}.sig")
    assert {path.name for path in dist.glob("*.signatures.oci.tar")} == {
        f"laneway-{name}.signatures.oci.tar" for name in digests
    }


@pytest.mark.usefixtures("digests")
def test_signing_again_signs_no_signatures(tmp_path: Path, key: ReleaseKey) -> None:
    sign_images(tmp_path / "dist", key.private, EPOCH)
    before = sorted(tmp_path.glob("dist/*"))
    sign_images(tmp_path / "dist", key.private, EPOCH)
    assert sorted(tmp_path.glob("dist/*")) == before
