"""`SHA256SUMS` of all files of a release, and its signature.

A signature is ECDSA's or RSA's over SHA-256, in base64, as cosign and openssl check it.
"""

from __future__ import annotations

import base64
import hashlib
import tempfile
from pathlib import Path

from hack.release.failure import run

SUMS = "SHA256SUMS"


def write_checksums(folder: Path) -> Path:
    """Writes the checksums of all files in `folder` as `sha256sum --check` reads them; returns their file."""
    files = (path for path in folder.iterdir() if not path.name.startswith(SUMS))
    lines = (f"{_sha256(path)}  {path.name}\n" for path in sorted(files))
    sums = folder / SUMS
    sums.write_text("".join(lines), encoding="utf-8")
    return sums


def sign(file: Path, key: Path) -> Path:
    """Writes the signature of `file` beside it, with `.sig` behind its name; returns the signature's file."""
    signed = file.with_name(f"{file.name}.sig")
    signed.write_text(f"{signature(file, key)}\n", encoding="ascii")
    return signed


def signature(file: Path, key: Path) -> str:
    """Returns the signature of `file`.

    Args:
        key: a private key in PEM. openssl asks for its password, if it has one.

    Raises:
        ReleaseError: openssl is not installed, or cannot use the key.
    """
    with tempfile.TemporaryDirectory() as scratch:
        binary = Path(scratch) / "signature"
        run(["openssl", "dgst", "-sha256", "-sign", key, "-out", binary, file])
        return base64.b64encode(binary.read_bytes()).decode("ascii")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
