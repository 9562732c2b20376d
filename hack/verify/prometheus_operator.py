"""The Prometheus operator's CRDs, for the chart's PodMonitor, ServiceMonitor and PrometheusRule: from its Go module, whose proxy the cluster's programs use too."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from hack.cluster.binaries import binary
from hack.cluster.cache import cache_folder
from hack.cluster.toolchain import go_program
from hack.images.cache import entry

MODULE = "github.com/prometheus-operator/prometheus-operator"
VERSION = "v0.92.1"
SUM = "h1:rHWuFo6SVya4FBSCNg2DCzyc4xAv54zk3eDTzp5mQZc="
"""Of the module's content, as in a go.sum."""

CRDS = ("podmonitors", "prometheusrules", "servicemonitors")


def prometheus_operator_crds() -> list[Path]:
    """The CRDs' files, downloaded on the first call."""
    folder = entry(cache_folder() / "schemas", f"prometheus-operator-{VERSION}-{'-'.join(CRDS)}", _download)
    return [folder / f"{name}.yaml" for name in CRDS]


def _download(folder: Path) -> None:
    go = go_program(binary("kubeconform").module_folder / "go.mod")
    with tempfile.TemporaryDirectory() as outside_of_any_module:
        done = subprocess.run(
            [str(go), "mod", "download", "-json", f"{MODULE}@{VERSION}"],
            cwd=outside_of_any_module,
            env={**os.environ, "GOFLAGS": "-mod=mod", "GOWORK": "off"},
            capture_output=True,
            text=True,
            check=False,
        )
    answer = json.loads(done.stdout or "{}")
    if done.returncode != 0 or answer.get("Sum") != SUM:
        found = answer.get("Error") or f"content {answer.get('Sum')}, expected {SUM}"
        raise RuntimeError(f"{MODULE}@{VERSION} could not be downloaded: {found} {done.stderr.strip()}")
    folder.mkdir()
    for name in CRDS:
        shutil.copyfile(
            Path(answer["Dir"])
            / "example"
            / "prometheus-operator-crd"
            / f"monitoring.coreos.com_{name}.yaml",
            folder / f"{name}.yaml",
        )
