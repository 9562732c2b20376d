"""Certificate authorities and one key pair per component, made with the openssl program (3.0 or newer).

Two authorities a cluster, so that a credential of Kubernetes opens nothing in etcd and the other way round. Keys are
P-256 and lie in files that only their owner can read. A certificate is made once; what exists is kept, also where two
commands look at the same cluster at the same moment.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hack.cluster.cache import exclusive
from hack.cluster.progress import ClusterError

# Longer than any developer's cluster lives; `cluster-down` deletes the authority together with the cluster.
_LIFETIME_DAYS = 3650


@dataclass(frozen=True)
class Credential:
    """A private key and its certificate."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Identity:
    """The holder of a certificate. `alternative_names` in openssl's notation: `DNS:name`, `IP:address`."""

    common_name: str
    organisation: str = ""
    alternative_names: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        organisation = f"/O={self.organisation}" if self.organisation else ""
        return f"{organisation}/CN={self.common_name}"


@dataclass(frozen=True)
class Authority:
    """A certificate authority; its files and those that it issues are in one folder."""

    folder: Path
    name: str

    @property
    def certificate(self) -> Path:
        return self.folder / f"{self.name}.crt"

    @property
    def key(self) -> Path:
        return self.folder / f"{self.name}.key"

    def ensure(self) -> None:
        """Create the authority if it does not exist."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        extensions = ("basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,digitalSignature")
        _certificate(Credential(self.certificate, self.key), Identity(f"laneway-{self.name}"), extensions, ())

    def issue(self, file_name: str, identity: Identity) -> Credential:
        """Returns a credential for `identity`, valid as a client and, with alternative names, as a server."""
        credential = Credential(self.folder / f"{file_name}.crt", self.folder / f"{file_name}.key")
        uses = "clientAuth,serverAuth" if identity.alternative_names else "clientAuth"
        extensions: tuple[str, ...] = (
            "basicConstraints=critical,CA:FALSE",
            "keyUsage=critical,digitalSignature",
            f"extendedKeyUsage={uses}",
        )
        if identity.alternative_names:
            extensions += (f"subjectAltName={','.join(identity.alternative_names)}",)
        signer = ("-CA", str(self.certificate), "-CAkey", str(self.key))
        _certificate(credential, identity, extensions, signer)
        return credential


def _certificate(
    credential: Credential, identity: Identity, extensions: tuple[str, ...], signer: tuple[str, ...]
) -> None:
    """Create both files, the certificate last: its presence proves that the pair is complete."""
    with _made_once(credential.certificate) as needed:
        if not needed:
            return
        unfinished = credential.certificate.with_suffix(".crt.new")
        command = ["openssl", "req", "-x509", "-new", "-nodes", "-newkey", "ec"]
        command += ["-pkeyopt", "ec_paramgen_curve:P-256", "-sha256", "-days", str(_LIFETIME_DAYS)]
        command += ["-subj", identity.subject, "-config", os.devnull]
        for extension in extensions:
            command += ["-addext", extension]
        command += [*signer, "-keyout", str(credential.key), "-out", str(unfinished)]
        _openssl(command)
        credential.key.chmod(0o600)
        unfinished.rename(credential.certificate)


@contextmanager
def _made_once(file: Path) -> Iterator[bool]:
    """Yields whether `file` must be created. No other process creates it until the block ends."""
    if file.exists():
        yield False
        return
    with exclusive(file.with_suffix(".lock")):
        yield not file.exists()


def ensure_signing_key(key: Path) -> Path:
    """The RSA key that signs service-account tokens. The API server verifies with the same file."""
    if not key.exists():
        key.parent.mkdir(parents=True, exist_ok=True)
        unfinished = key.with_suffix(".new")
        _openssl(
            [
                "openssl",
                "genpkey",
                "-algorithm",
                "RSA",
                "-pkeyopt",
                "rsa_keygen_bits:2048",
                "-out",
                str(unfinished),
            ]
        )
        unfinished.chmod(0o600)
        unfinished.rename(key)
    return key


def _openssl(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise ClusterError(
            "the program 'openssl' is not on PATH: install the package openssl (3.0 or newer)"
        ) from None
    if done.returncode != 0:
        raise ClusterError(
            f"{' '.join(command)} failed with status {done.returncode}:\n{done.stderr.strip()}"
        )
