"""Runs a real Prometheus beside the cluster, with the chart's rules, which scrapes Laneway's pods through the API server.

Its own service account may list and scrape the pods of Laneway's namespace, and nothing else.
On an embedded cluster, Prometheus is one of the cluster's processes and runs until `make cluster-down`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hack.chart.rules import rules
from hack.cluster.kubectl import Kubectl
from hack.cluster.probes import answers_ok, wait_until
from hack.cluster.processes import Component
from hack.cluster.progress import ClusterError
from hack.demo.install import REPOSITORY, SYSTEM_NAMESPACE
from hack.demo.target import Target

ACCOUNT = "laneway-demo-prometheus"
PORT = 9090

_START_TIMEOUT_SECONDS = 120.0
_ANSWER_TIMEOUT_SECONDS = 60
"""A query takes milliseconds, and seconds where other programs keep the machine busy."""
_TOKEN_DURATION = "720h"
_SCRAPE_INTERVAL = "5s"


@dataclass(frozen=True)
class Prometheus:
    """A running Prometheus."""

    address: str
    children: tuple[subprocess.Popen[bytes], ...] = ()
    """The processes to end, unless they belong to an embedded cluster."""

    def end_children(self) -> None:
        """End the processes that nothing else ends."""
        for child in self.children:
            child.terminate()
            child.wait()

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result of an instant query.

        Raises:
            OSError: Prometheus does not respond, or refuses the query.
        """
        result: list[dict[str, Any]] = self._get("query", {"query": expression})["result"]
        return result

    def targets(self) -> dict[str, str]:
        """Return the health of each scraped target by instance."""
        return {
            target["labels"]["instance"]: target["health"] for target in self._get("targets")["activeTargets"]
        }

    def _get(self, what: str, query: dict[str, str] | None = None) -> Any:
        url = f"{self.address}/api/v1/{what}?{urllib.parse.urlencode(query or {})}"
        with urllib.request.urlopen(url, timeout=_ANSWER_TIMEOUT_SECONDS) as answer:
            return json.load(answer)["data"]


def start(target: Target, server: str) -> Prometheus:
    """Start Prometheus on the cluster whose API server is at ``server``; restart it if it runs already.

    Raises:
        ClusterError: it is not installed or does not start; the message says what to do.
    """
    program = shutil.which("prometheus")
    if program is None:
        raise ClusterError("there is no program 'prometheus': install the package 'prometheus' (apt, brew)")
    running = target.embedded
    folder = running.cluster.folder / "prometheus" if running else Path.home() / ".cache/laneway/prometheus"
    host, port = (running.cluster.address, PORT) if running else ("127.0.0.1", _free_port())
    _prepare(folder, target.kubectl, server)
    commands = {
        "prometheus-discovery": (
            *(sys.executable, "-m", "hack.demo.discovery"),
            *(str(folder / "kubeconfig"), SYSTEM_NAMESPACE, str(folder / "targets.json")),
        ),
        "prometheus": (
            *(
                program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
            ),
            *("--storage.tsdb.retention.time=1d", f"--web.listen-address={host}:{port}"),
        ),
    }
    children = []
    for name, command in commands.items():
        if running:
            program_file = Path(os.path.realpath(command[0]))
            log = running.cluster.log(name)
            component = Component(name, f"{running.cluster.cgroup}/{name}", program_file, log)
            component.kill()
            component.start(("env", f"--chdir={REPOSITORY}", *command))
        else:
            children.append(_child(command, folder / f"{name}.log"))
    prometheus = Prometheus(f"http://{host}:{port}", tuple(children))
    log = running.cluster.log("prometheus") if running else folder / "prometheus.log"
    try:
        wait_until(
            lambda: answers_ok(host, port, "/-/ready", None),
            f"Prometheus answering on {host}:{port}",
            _START_TIMEOUT_SECONDS,
            log=log,
        )
    except ClusterError:
        prometheus.end_children()
        raise
    return prometheus


def _child(command: Sequence[str], log_file: Path) -> subprocess.Popen[bytes]:
    with log_file.open("ab") as log:
        return subprocess.Popen(command, cwd=REPOSITORY, stdout=log, stderr=log)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _prepare(folder: Path, kubectl: Kubectl, server: str) -> None:
    """Create the account, and write the files that Prometheus and its discovery read."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    kubectl.run("apply", "--server-side", "--filename", "-", stdin=_rights())
    token = kubectl.run(
        "create", "token", ACCOUNT, "--namespace", SYSTEM_NAMESPACE, "--duration", _TOKEN_DURATION
    )
    authority = kubectl.get("configmap", "kube-root-ca.crt", "--namespace", SYSTEM_NAMESPACE)["data"][
        "ca.crt"
    ]
    _write(folder / "token", token)
    _write(folder / "ca.crt", authority)
    _write(folder / "kubeconfig", json.dumps(_kubeconfig(server, folder)))
    _write(folder / "rules.yml", yaml.safe_dump(rules(), sort_keys=False))
    _write(folder / "prometheus.yml", yaml.safe_dump(_configuration(folder), sort_keys=False))


def _rights() -> str:
    metadata = {"name": ACCOUNT, "namespace": SYSTEM_NAMESPACE}
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]},
    ]
    group = "rbac.authorization.k8s.io"
    items: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        },
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def _kubeconfig(server: str, folder: Path) -> dict[str, Any]:
    cluster = {"server": server, "certificate-authority": str(folder / "ca.crt")}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": ACCOUNT, "user": {"tokenFile": str(folder / "token")}}],
        "contexts": [{"name": "cluster", "context": {"cluster": "cluster", "user": ACCOUNT}}],
        "current-context": "cluster",
    }


def _configuration(folder: Path) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": _SCRAPE_INTERVAL, "scrape_timeout": _SCRAPE_INTERVAL},
        "rule_files": [str(folder / "rules.yml")],
        "scrape_configs": [
            {
                "job_name": "laneway",
                "scheme": "https",
                # As in the chart's PodMonitor: keep the job's namespace and pod, not the exporter's.
                "honor_labels": True,
                "tls_config": {"ca_file": str(folder / "ca.crt")},
                "authorization": {"credentials_file": str(folder / "token")},
                "file_sd_configs": [{"files": [str(folder / "targets.json")], "refresh_interval": "5s"}],
            }
        ],
    }


def _write(file: Path, text: str) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(text)
