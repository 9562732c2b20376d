"""An administrator's way to a real API server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from hack.cluster.control_plane import LoopbackControlPlane


class Cluster:
    """What the tests ask of the API server."""

    def __init__(self, plane: LoopbackControlPlane) -> None:
        self.plane = plane

    def kubectl(self, *arguments: str, stdin: str = "", kubeconfig: Path | None = None) -> str:
        command = [
            str(self.plane.kubectl),
            "--kubeconfig",
            str(kubeconfig or self.plane.kubeconfig),
            *arguments,
        ]
        done = subprocess.run(command, check=False, input=stdin, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, *objects: dict[str, Any]) -> None:
        self.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(objects))

    def gpu_node(self, name: str) -> dict[str, Any]:
        """Return the object; empty while it is not there."""
        text = self.kubectl(
            "get", "gpunode", name, "--ignore-not-found", "--show-managed-fields", "-o", "json"
        )
        return dict(json.loads(text)) if text else {}

    def sessions(self, name: str) -> dict[str, dict[str, Any]]:
        gpus = self.gpu_node(name).get("status", {}).get("gpus", [])
        return {session["pod"]: session for gpu in gpus for session in gpu.get("sessions", [])}
