"""A key that signs one test's release, and the check of a signature, both with openssl as hack/release/README.md says."""

from __future__ import annotations

import base64
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ReleaseKey:
    """The two files of a key in PEM."""

    private: Path
    public: Path

    def verifies(self, content: Path, signature: Path) -> bool:
        """Whether a file in base64 holds this key's signature of a file."""
        binary = signature.with_name(f"{signature.name}.binary")
        binary.write_bytes(base64.b64decode(signature.read_bytes()))
        command = ["openssl", "dgst", "-sha256", "-verify", self.public, "-signature", binary, content]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def throw_away_key(folder: Path) -> ReleaseKey:
    """Return a new key in a folder."""
    key = ReleaseKey(folder / "private-key.pem", folder / "laneway.pub")
    command = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
    subprocess.run([*command, "-out", key.private], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", key.private, "-pubout", "-out", key.public], check=True)
    return key
