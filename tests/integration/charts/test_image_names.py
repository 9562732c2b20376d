"""Which images the rendered chart names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.chart.generated import CHART
from hack.images.targets import TARGETS, version
from hack.verify.chart import rendered_objects

DIGEST = f"sha256:{'0123456789abcdef' * 4}"


def images(values: dict[str, Any], folder: Path) -> set[str]:
    """The images of all containers of the chart's workloads."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    workloads = [each for each in rendered_objects(file) if "template" in each.get("spec", {})]
    pods = [each["spec"]["template"]["spec"] for each in workloads]
    return {c["image"] for pod in pods for c in (*pod["containers"], *pod.get("initContainers", []))}


def test_by_default_they_are_those_that_are_built_here(tmp_path: Path) -> None:
    chart = {target.reference for target in TARGETS.values() if target.name != "examples"}
    board = {TARGETS["board"].reference}
    assert images({}, tmp_path) == chart - board
    assert images({"board": {"enabled": True}}, tmp_path) == chart


def test_in_an_air_gapped_cluster_all_are_in_its_registry(tmp_path: Path) -> None:
    values = yaml.safe_load((CHART / "platforms" / "air-gapped.yaml").read_text(encoding="utf-8"))
    values["metrics"]["secure"]["enabled"] = True
    values["board"] = {"enabled": True}
    found = images(values, tmp_path)
    assert "registry.example.com/mirror/brancz/kube-rbac-proxy:v0.21.0" in found
    assert not [each for each in found if not each.startswith("registry.example.com/mirror/")]


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ({}, "quay.io/brancz/kube-rbac-proxy:v0.21.0"),
        ({"tag": f"v1@{DIGEST}"}, f"quay.io/brancz/kube-rbac-proxy:v1@{DIGEST}"),
    ],
)
def test_the_proxys_image_has_a_tag_of_its_own(image: dict[str, str], name: str, tmp_path: Path) -> None:
    values = {"image": {"tag": "v9"}, "metrics": {"secure": {"enabled": True, "image": image}}}
    assert name in images(values, tmp_path)


@pytest.mark.parametrize(
    ("values", "operator"),
    [
        (
            {"image": {"registry": "registry.example.com/team/"}},
            f"registry.example.com/team/laneway/operator:{version()}",
        ),
        ({"image": {"registry": ""}}, f"laneway/operator:{version()}"),
        ({"image": {"tag": "v1"}}, "ghcr.io/laneway/operator:v1"),
        ({"operator": {"image": {"digest": DIGEST}}}, f"ghcr.io/laneway/operator:{version()}@{DIGEST}"),
        ({"operator": {"image": {"digest": DIGEST, "tag": "v2"}}}, "ghcr.io/laneway/operator:v2"),
        ({"image": {"tag": "v1"}, "operator": {"image": {"digest": DIGEST}}}, "ghcr.io/laneway/operator:v1"),
        (
            {"operator": {"image": {"repository": "registry.example.com/acme/operator"}}},
            f"registry.example.com/acme/operator:{version()}",
        ),
        ({"operator": {"image": {"repository": "localhost/operator"}}}, f"localhost/operator:{version()}"),
        (
            {"operator": {"image": {"repository": "registry:5000/operator"}}},
            f"registry:5000/operator:{version()}",
        ),
    ],
    ids=lambda case: case if isinstance(case, str) else "",
)
def test_the_operators_image(values: dict[str, Any], operator: str, tmp_path: Path) -> None:
    assert operator in images(values, tmp_path)
