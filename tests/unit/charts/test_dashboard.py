"""The dashboard and the alert rules use only metrics and labels that the components declare."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hack.chart.dashboard import COLUMNS, dashboard
from hack.chart.rules import rules
from hack.reference.metrics import METRICS

ROOT = Path(__file__).parents[3]
_METRIC = re.compile(r"(?<!:)\blaneway_[a-z0-9_]+\b(?!:)")
"""Not what recording rules make, whose names have colons."""

_HISTOGRAM_PARTS = ("_bucket", "_count", "_sum")


def promised_metrics() -> dict[str, set[str]]:
    """Labels by metric; a histogram's under the names of its three series."""
    promised: dict[str, set[str]] = {}
    for metric in (each for component in METRICS.values() for each in component):
        if metric.kind == "histogram":
            promised |= {metric.name + part: {*metric.labels, "le"} for part in _HISTOGRAM_PARTS}
        else:
            promised[metric.name] = set(metric.labels)
    return promised


def panels() -> list[dict[str, Any]]:
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries() -> dict[str, str]:
    """PromQL by panel or alert."""
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in panels()
        for target in panel["targets"]
    }
    listed = [rule for group in rules()["groups"] for rule in group["rules"]]
    return found | {rule.get("alert") or rule["record"]: rule["expr"] for rule in listed}


@pytest.mark.parametrize("query", queries().values(), ids=queries().keys())
def test_every_query_asks_for_promised_metrics_and_labels(query: str) -> None:
    promised = promised_metrics()
    metrics = _METRIC.findall(query)
    assert metrics or ":" in query, query
    assert set(metrics) <= set(promised), query
    grouped = {
        label.strip() for labels in re.findall(r"\bby \(([^)]*)\)", query) for label in labels.split(",")
    }
    selected = set(re.findall(r"([a-z_]+)(?:=~|!=|!~|=)\"", query))
    for metric in metrics:
        assert grouped | selected <= promised[metric], f"{metric} in {query}"


def test_legends_name_labels_that_the_query_keeps() -> None:
    promised = promised_metrics()
    for panel in panels():
        for target in panel["targets"]:
            kept = {label for metric in _METRIC.findall(target["expr"]) for label in promised[metric]}
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]


def test_panels_lie_beside_one_another_and_never_overlap() -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard()["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((x, y), panel["title"]) == panel["title"]


def test_identities_are_unique() -> None:
    identities = [panel["id"] for panel in dashboard()["panels"]]
    assert len(identities) == len(set(identities))


def test_the_file_in_the_chart_is_what_grafana_imports() -> None:
    document = json.loads(
        (ROOT / "charts" / "laneway" / "dashboards" / "laneway.json").read_text(encoding="utf-8")
    )
    assert document == dashboard()
