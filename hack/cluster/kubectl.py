"""Talks to a cluster with the pinned kubectl."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hack.cluster.commands import run, succeeds


@dataclass(frozen=True)
class Kubectl:
    """kubectl with a kubeconfig."""

    program: Path
    kubeconfig: Path

    def run(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Standard output of a call that must succeed."""
        return run([self.program, "--kubeconfig", self.kubeconfig, *arguments], stdin=stdin)

    def succeeds(self, *arguments: str | Path) -> bool:
        return succeeds([self.program, "--kubeconfig", self.kubeconfig, *arguments])

    def get(self, *arguments: str) -> dict[str, Any]:
        """Returns the document of `kubectl get`."""
        document: dict[str, Any] = json.loads(self.run("get", *arguments, "--output", "json"))
        return document

    def ready_nodes(self) -> set[str]:
        """Returns the names of the Ready nodes; empty while the API server does not respond."""
        template = (
            '{range .items[*]}{.metadata.name}={.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
        )
        if not self.succeeds("get", "--raw", "/readyz"):
            return set()
        lines = self.run("get", "nodes", "--output", f"jsonpath={template}").split()
        return {line.removesuffix("=True") for line in lines if line.endswith("=True")}

    def live_pods(self, node: str) -> set[str]:
        """Returns the uids of the pods on a node that have not ended."""
        unfinished = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"
        pods = self.get("pods", "--all-namespaces", "--field-selector", unfinished)["items"]
        return {pod["metadata"]["uid"] for pod in pods}
