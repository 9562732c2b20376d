"""Signatures of images, checked with openssl as cosign checks them."""

from __future__ import annotations

import base64
import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from hack.release.build import sign_release
from hack.release.checksums import SUMS, write_checksums
from hack.release.oci_layout import TAG, Layout, open_blob, read_json
from hack.release.signatures import ANNOTATION, sign_images

EPOCH = 1_700_000_000
CONFIG = "application/vnd.oci.image.config.v1+json"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key.pem"
    command = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
    subprocess.run([*command, "-out", path], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", path, "-pubout", "-out", tmp_path / "key.pub"], check=True)
    return path


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


def verified(payload: bytes, signature: str, folder: Path) -> bool:
    (folder / "payload").write_bytes(payload)
    (folder / "signature").write_bytes(base64.b64decode(signature))
    command = [
        "openssl",
        "dgst",
        "-sha256",
        "-verify",
        folder / "key.pub",
        "-signature",
        folder / "signature",
    ]
    return subprocess.run([*command, folder / "payload"], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "reference"),
    [("operator", "ghcr.io/laneway/operator"), ("chart", "ghcr.io/laneway/charts/laneway")],
)
def test_each_manifest_has_a_signature(
    tmp_path: Path, key: Path, digests: dict[str, set[str]], name: str, reference: str
) -> None:
    sign_images(tmp_path / "dist", key, EPOCH)
    signed = set()
    with tarfile.open(tmp_path / f"dist/laneway-{name}.signatures.oci.tar") as layout:
        for named in read_json(layout)["manifests"]:
            (layer,) = read_json(layout, named["digest"])["layers"]
            with open_blob(layout, layer["digest"]) as file:
                payload = file.read()
            assert verified(payload, layer["annotations"][ANNOTATION], tmp_path)
            assert not verified(payload + b" ", layer["annotations"][ANNOTATION], tmp_path)
            critical = json.loads(payload)["critical"]
            digest = critical["image"]["docker-manifest-digest"]
            assert named["annotations"][TAG] == f"{digest.replace(':', '-')}.sig"
            assert critical["identity"] == {"docker-reference": reference}
            signed.add(digest)
    assert signed == digests[name]


def test_a_release_can_be_signed_where_it_was_not_built(
    tmp_path: Path, key: Path, digests: dict[str, set[str]]
) -> None:
    """The job that builds has no key."""
    dist = tmp_path / "dist"
    write_checksums(dist)
    sign_release(dist, key, EPOCH)
    assert verified((dist / SUMS).read_bytes(), (dist / f"{SUMS}.sig").read_text(), tmp_path)
    assert {path.name for path in dist.glob("*.signatures.oci.tar")} == {
        f"laneway-{name}.signatures.oci.tar" for name in digests
    }


@pytest.mark.usefixtures("digests")
def test_signing_again_signs_no_signatures(tmp_path: Path, key: Path) -> None:
    sign_images(tmp_path / "dist", key, EPOCH)
    before = sorted(tmp_path.glob("dist/*"))
    sign_images(tmp_path / "dist", key, EPOCH)
    assert sorted(tmp_path.glob("dist/*")) == before
