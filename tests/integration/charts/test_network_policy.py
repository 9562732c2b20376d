"""Who reaches the ports of Laneway's pods, as the chart is installed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hack.chart.generated import ROOT
from hack.verify.chart import rendered_objects

ValuesFile = Callable[[str], Path]
MONITORING = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]


def rules(values: Path) -> dict[str, list[dict[str, Any]]]:
    """The ingress rules of each NetworkPolicy, by the component that it selects."""
    objects = rendered_objects(values)
    return {
        each["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"]: each["spec"]["ingress"]
        for each in objects
        if each["kind"] == "NetworkPolicy"
    }


@pytest.mark.parametrize(
    ("values", "peers"),
    [
        ("{}", MONITORING),
        ("networkPolicy: {from: []}", [{"namespaceSelector": {}}]),
        ("networkPolicy: {from: [{ipBlock: {cidr: 10.0.0.0/8}}]}", [{"ipBlock": {"cidr": "10.0.0.0/8"}}]),
    ],
    ids=["by default, the namespace monitoring", "an empty list, every pod", "others, as they are written"],
)
def test_only_the_peers_reach_the_metrics_and_nobody_another_port(
    values_file: ValuesFile, values: str, peers: list[dict[str, Any]]
) -> None:
    found = rules(values_file(values))
    ports = {
        component: [[port["port"] for port in rule["ports"]] for rule in ingress]
        for component, ingress in found.items()
    }
    assert ports == {"operator": [[9090]], "node": [[9464, 9465]]}
    assert all(rule["from"] == peers for ingress in found.values() for rule in ingress)


def test_without_policies_everybody_reaches_them(values_file: ValuesFile) -> None:
    assert rules(values_file("networkPolicy: {enabled: false}")) == {}


def test_the_security_model_says_which_ports_are_reached(values_file: ValuesFile) -> None:
    rendered = rules(values_file("board: {enabled: true}"))
    ports = {port["port"] for ingress in rendered.values() for rule in ingress for port in rule["ports"]}
    model = (ROOT / "docs" / "operate" / "security.md").read_text(encoding="utf-8")
    (row,) = (line for line in model.splitlines() if line.startswith("| the network |"))
    assert {int(port) for port in re.findall(r"\b\d{4,5}\b", row)} == ports
