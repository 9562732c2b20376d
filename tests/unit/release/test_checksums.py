"""Checksums and their signature, checked with the programs that users have."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest

from hack.release.checksums import sign, write_checksums
from hack.release.failure import ReleaseError


@pytest.fixture
def release(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "laneway-operator.oci.tar").write_bytes(b"an image")
    (folder / "CHANGELOG.md").write_text("# Changes\n", encoding="utf-8")
    write_checksums(folder)
    return folder


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key.pem"
    command = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
    subprocess.run([*command, "-out", path], check=True, capture_output=True)
    return path


def checked(folder: Path) -> bool:
    command = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def verified(folder: Path, key: Path) -> bool:
    public, signature = key.with_name("public.pem"), key.with_name("signature")
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True)
    signature.write_bytes(base64.b64decode((folder / "SHA256SUMS.sig").read_bytes()))
    command = [
        "openssl",
        "dgst",
        "-sha256",
        "-verify",
        public,
        "-signature",
        signature,
        folder / "SHA256SUMS",
    ]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_checksums_cover_every_file(release: Path) -> None:
    assert (release / "SHA256SUMS").read_text(encoding="utf-8").count("\n") == 2
    assert checked(release)
    (release / "laneway-operator.oci.tar").write_bytes(b"another image")
    assert not checked(release)


def test_a_signature_holds_for_these_checksums_only(release: Path, key: Path) -> None:
    sign(release / "SHA256SUMS", key)
    assert verified(release, key)
    (release / "CHANGELOG.md").write_text("# Other changes\n", encoding="utf-8")
    write_checksums(release)
    assert checked(release)
    assert not verified(release, key)


def test_a_file_that_is_no_key_is_refused(release: Path, tmp_path: Path) -> None:
    (tmp_path / "no-key").write_text("text", encoding="utf-8")
    with pytest.raises(ReleaseError, match="no-key"):
        sign(release / "SHA256SUMS", tmp_path / "no-key")
