"""Writes a kubeconfig for one credential: certificates are named by path for components, embedded for people."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import yaml

from hack.cluster.pki import Credential


def write_kubeconfig(
    file: Path,
    *,
    cluster: str,
    server: str,
    authority: Path,
    user: str,
    credential: Credential,
    embed: bool = False,
) -> Path:
    """Write `file` readable by its owner only. `embed` makes it independent of the state folder's other files."""
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": cluster,
                "cluster": {"server": server, **_material("certificate-authority", authority, embed)},
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    **_material("client-certificate", credential.certificate, embed),
                    **_material("client-key", credential.key, embed),
                },
            }
        ],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.new")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        yaml.safe_dump(document, out, sort_keys=False)
    unfinished.rename(file)
    return file


def _material(field: str, file: Path, embed: bool) -> dict[str, str]:
    if embed:
        return {f"{field}-data": base64.b64encode(file.read_bytes()).decode()}
    return {field: str(file)}
