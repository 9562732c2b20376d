"""Tells Prometheus which pods there are: `python -m hack.demo.discovery KUBECONFIG NAMESPACE FILE`.

Debian's Prometheus is built without its own discovery for Kubernetes, so the list of targets comes as a file that this
program keeps current.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.parse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hack.cluster.progress import ClusterError
from hack.demo.api import Api

_INTERVAL_SECONDS = 3.0


def targets(pods: Iterable[Mapping[str, Any]], server: str) -> list[dict[str, Any]]:
    """Return the groups of Prometheus' file: each port of a running pod whose name ends in `metrics`.

    They are reached through the API server, whose address is the one that this machine reaches on every cluster.
    """
    groups = []
    for pod in pods:
        if pod["status"].get("phase") != "Running" or pod["metadata"].get("deletionTimestamp"):
            continue
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        for container in pod["spec"]["containers"]:
            for port in container.get("ports") or ():
                if str(port.get("name", "")).endswith("metrics"):
                    number = port["containerPort"]
                    path = f"/api/v1/namespaces/{namespace}/pods/{name}:{number}/proxy/metrics"
                    labels = {"__metrics_path__": path, "instance": f"{name}:{number}"}
                    groups.append({"targets": [urllib.parse.urlsplit(server).netloc], "labels": labels})
    return groups


def write_targets(api: Api, namespace: str, file: Path) -> None:
    """Write the file as the cluster is now.

    Raises:
        ClusterError: the API server does not answer.
    """
    text = json.dumps(targets(api.items(f"/api/v1/namespaces/{namespace}/pods"), api.server), indent=1)
    if file.exists() and file.read_text() == text:
        return
    scratch = file.with_name(f".{file.name}.new")
    scratch.write_text(text)
    scratch.replace(file)


def main() -> int:
    """Keep the file current until killed. While the API server is down, the file does not change."""
    kubeconfig, namespace, file = sys.argv[1:]
    api = Api(Path(kubeconfig))
    while True:
        try:
            write_targets(api, namespace, Path(file))
        except ClusterError as error:
            print(error, file=sys.stderr, flush=True)
        time.sleep(_INTERVAL_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
