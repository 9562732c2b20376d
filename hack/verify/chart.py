"""Checks the chart: `helm lint`, its objects and the examples against the schemas of their kinds, its alert rules.

Each file in `charts/laneway/ci/` and `charts/laneway/platforms/`, and the values of the demo, are one way to install the chart.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from hack.chart.generated import CHART, ROOT
from hack.chart.rules import rules
from hack.cluster.binaries import binary
from hack.cluster.build import built
from hack.verify.failure import CheckFailedError
from hack.verify.prometheus_operator import prometheus_operator_crds
from hack.verify.schemas import FILE_NAME, kubernetes_schemas, write_crd_schemas

NAMESPACE = "laneway-system"


def check_chart() -> Iterator[str]:
    """Runs the checks; yields one line for each passed check.

    Raises:
        CheckFailedError: a check failed.
    """
    with tempfile.TemporaryDirectory() as scratch:
        crd_schemas = Path(scratch)
        write_schemas(crd_schemas)
        for values in variants():
            name = values.relative_to(ROOT)
            _run(
                "helm",
                "lint",
                "--strict",
                "--quiet",
                "--kube-version",
                kubernetes_version(),
                str(CHART),
                "--values",
                str(values),
            )
            yield f"helm lint: {name}"
            summary = conform(crd_schemas, rendered(values))
            yield f"kubeconform: {name}: {summary}"
        for manifest in sorted((ROOT / "examples").glob("**/*.yaml")):
            yield f"kubeconform: {manifest.relative_to(ROOT)}: {conform(crd_schemas, manifest.read_text(encoding='utf-8'))}"
        if shutil.which("promtool"):
            file = Path(scratch) / "rules.yaml"
            file.write_text(yaml.safe_dump(rules()), encoding="utf-8")
            _checked(["promtool", "check", "rules", "--lint=all", "--lint-fatal", str(file)])
            yield "promtool: recording rules and alerts"


def variants() -> list[Path]:
    """Returns the values files with which the chart is checked."""
    return [
        *sorted((CHART / "ci").glob("*-values.yaml")),
        *sorted((CHART / "platforms").glob("*.yaml")),
        *sorted((ROOT / "hack").glob("*/*values.yaml")),
    ]


def rendered(values: Path, *arguments: str, release: str = "laneway") -> str:
    """Returns the chart's objects, rendered with these values for a release of this name.

    Raises:
        CheckFailedError: helm refused them.
    """
    command = [
        "template",
        release,
        str(CHART),
        "--namespace",
        NAMESPACE,
        "--kube-version",
        kubernetes_version(),
    ]
    return _run("helm", *command, "--values", str(values), *arguments)


def rendered_objects(values: Path, *arguments: str) -> list[dict[str, Any]]:
    """Returns the objects of :func:`rendered`, parsed. libyaml's parser needs a tenth of the time of yaml's own.

    Raises:
        CheckFailedError: helm refused the values.
    """
    return [found for found in yaml.load_all(rendered(values, *arguments), Loader=yaml.CSafeLoader) if found]


def kubernetes_version() -> str:
    """Returns the Kubernetes version of the tests' cluster, for which the chart is rendered."""
    return binary("kube-apiserver").version


def write_schemas(folder: Path) -> None:
    """Writes the schemas of the custom resources that the chart and the examples have."""
    write_crd_schemas([*sorted((ROOT / "crds").glob("*.yaml")), *prometheus_operator_crds()], folder)


def conform(crd_schemas: Path, objects: str) -> str:
    """Checks objects against the schemas of their kinds; returns a summary.

    Args:
        crd_schemas: the folder of :func:`write_schemas`.
        objects: their manifests.

    Raises:
        CheckFailedError: one does not conform.
    """
    locations = [f"-schema-location={folder}/{FILE_NAME}" for folder in (kubernetes_schemas(), crd_schemas)]
    return _run("kubeconform", "-strict", "-summary", *locations, "-", stdin=objects).strip()


def _run(program: str, *arguments: str, stdin: str = "") -> str:
    return _checked([str(built(program)), *arguments], stdin)


def _checked(command: list[str], stdin: str = "") -> str:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CheckFailedError(
            f"{Path(command[0]).name} {' '.join(command[1:])} failed:\n{done.stdout}{done.stderr}".strip()
        )
    return done.stdout
