"""What a process finds in a pod: variables that name the API server, and files of its service account."""

from __future__ import annotations

from pathlib import Path

import pytest
from kubernetes.config import incluster_config

SERVER = "https://192.0.2.9:443"
NAMESPACE = "pods-own"
TOKEN = "service-account"


def enter_pod(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process believe that it runs in a pod. It has no kubeconfig: its home is the folder."""
    leave_kubeconfigs(folder, monkeypatch)
    for name, content in (("token", TOKEN), ("ca.crt", "certificate"), ("namespace", f"{NAMESPACE}\n")):
        (folder / name).write_text(content, encoding="utf-8")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(folder / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(folder / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.9")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")


def leave_kubeconfigs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the kubeconfigs of the user who runs the tests, and a pod in which they run."""
    monkeypatch.setenv("HOME", str(folder))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
