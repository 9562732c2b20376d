"""The dashboards, recording rules and alerts use only metrics and labels that the components declare."""

from __future__ import annotations

import json
import re
from functools import cache

import pytest

from hack.chart.generated import CHART, ROOT
from hack.chart.rules import rules
from hack.dashboards.files import dashboards
from hack.dashboards.panels import COLUMNS, NEEDS_DCGM
from hack.reference.metrics import METRICS
from tests.support.dashboard_queries import PanelQuery, panel_queries, panels

_METRIC = re.compile(r"(?<![:\w])laneway_[a-z0-9_]+\b(?!:)")
_RECORDED = re.compile(r"\b\w+:laneway_\w+:\w+|\blaneway:\w+:\w+")
_SELECTED = re.compile(r"(?<![:\w])(laneway_[a-z0-9_]+)\{([^}]*)\}")
_HISTOGRAM_PARTS = ("_bucket", "_count", "_sum")
_OF_TARGETS = {"job", "instance"}
"""Labels that Prometheus adds to every series."""


@cache
def promised_metrics() -> dict[str, set[str]]:
    """Labels by metric; a histogram's under the names of its three series."""
    promised: dict[str, set[str]] = {}
    for metric in (each for component in METRICS.values() for each in component):
        if metric.kind == "histogram":
            promised |= {metric.name + part: {*metric.labels, "le"} for part in _HISTOGRAM_PARTS}
        else:
            promised[metric.name] = set(metric.labels)
    return promised


@cache
def counters() -> set[str]:
    metrics = [each for component in METRICS.values() for each in component]
    parts = {each.name + part for each in metrics if each.kind == "histogram" for part in _HISTOGRAM_PARTS}
    return parts | {each.name for each in metrics if each.kind == "counter"}


@cache
def recorded() -> dict[str, str]:
    return {
        rule["record"]: rule["expr"]
        for group in rules()["groups"]
        for rule in group["rules"]
        if "record" in rule
    }


@cache
def queries() -> dict[str, str]:
    """PromQL by panel, recording rule or alert."""
    listed = [rule for group in rules()["groups"] for rule in group["rules"]]
    return {str(each): each.expression for each in panel_queries()} | {
        rule.get("alert") or rule["record"]: rule["expr"] for rule in listed
    }


@pytest.mark.parametrize("query", queries().values(), ids=queries().keys())
def test_every_query_asks_for_promised_metrics_and_labels(query: str) -> None:
    promised = promised_metrics()
    metrics = set(_METRIC.findall(query))
    assert metrics or _RECORDED.search(query) or "DCGM" in query, query
    assert metrics <= promised.keys(), query
    assert set(_RECORDED.findall(query)) <= recorded().keys(), query
    for metric, selector in _SELECTED.findall(query):
        assert set(re.findall(r"(\w+)(?:=~|!=|!~|=)\"", selector)) <= promised[metric], query
    grouped = {
        label.strip()
        for labels in re.findall(r"\b(?:by|on|group_left) \(([^)]*)\)", query)
        for label in labels.split(",")
    }
    if metrics:
        known = set().union(*(promised[metric] for metric in metrics))
        assert grouped - {""} - _OF_TARGETS <= known, query


@pytest.mark.parametrize("query", panel_queries(), ids=str)
def test_no_panel_plots_a_counter_raw(query: PanelQuery) -> None:
    for found in _METRIC.finditer(query.expression):
        if found[0] in counters():
            assert re.search(r"\b(rate|increase)\($", query.expression[: found.start()]), query


def test_no_part_of_the_time_is_a_sum() -> None:
    """A worker's counters have a series for each of its GPUs, and count each process: a sum would be more than 100 %."""
    parts = [panel for _, panel in panels() if panel["fieldConfig"]["defaults"].get("unit") == "percentunit"]
    sums = [
        panel["title"]
        for panel in parts
        for target in panel["targets"]
        if re.search(r"sum by \(\w+\) \(rate\(", target["expr"]) and " / " not in target["expr"]
    ]
    assert len(parts) > 5
    assert sums == []


@pytest.mark.parametrize("query", panel_queries(), ids=str)
def test_legends_name_labels_that_the_query_keeps(query: PanelQuery) -> None:
    kept = {
        label.strip()
        for labels in re.findall(r"\b(?:by|group_left) \(([^)]*)\)", query.expression)
        for label in labels.split(",")
    }
    assert set(re.findall(r"{{(\w+)}}", query.legend)) <= kept


def test_panels_lie_beside_one_another_and_never_overlap() -> None:
    taken: dict[tuple[str, int, int], str] = {}
    for dashboard, panel in panels():
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert taken.setdefault((dashboard, x, y), panel["title"]) == panel["title"]


def test_titles_are_unique_in_a_dashboard() -> None:
    titles = [(dashboard, panel["title"]) for dashboard, panel in panels()]
    assert len(titles) == len(set(titles))


def test_every_panel_is_described() -> None:
    assert [panel["title"] for _, panel in panels() if not panel["description"]] == []


def test_queries_use_the_variables_of_their_dashboard() -> None:
    for name, dashboard in dashboards().items():
        variables = {each["name"] for each in dashboard["templating"]["list"]}
        used = {
            variable
            for each in panel_queries()
            if each.dashboard == name
            for variable in re.findall(r"\$(\w+)", each.expression)
            if not variable.startswith("__") and not variable.isdigit()
        }
        assert variables - {"datasource"} == used, name


def test_the_files_in_the_chart_are_what_grafana_imports() -> None:
    for name, dashboard in dashboards().items():
        assert json.loads((CHART / "dashboards" / f"{name}.json").read_text(encoding="utf-8")) == dashboard


def test_every_dashboard_has_a_picture_in_the_documentation() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    shown = re.findall(r"\]\((pictures/dashboard-(\w+)\.png)\)", page)
    assert {name for _, name in shown} == set(dashboards())
    assert [file for file, _ in shown if not 0 < (ROOT / "docs" / file).stat().st_size < 400_000] == []


def test_panels_without_dcgm_say_what_they_need() -> None:
    needing = {
        (query.dashboard, query.panel)
        for query in panel_queries()
        if "DCGM" in query.expression and "DCGM" in query.panel
    }
    saying = {
        (name, panel["title"])
        for name, panel in panels()
        if panel["fieldConfig"]["defaults"].get("noValue") == NEEDS_DCGM
    }
    assert len(needing) == 6
    assert saying == needing


def test_tables_have_no_column_with_the_name_of_a_metric() -> None:
    for name, panel in panels():
        if panel["type"] == "table":
            (tidy,) = (each["options"] for each in panel["transformations"] if each["id"] == "organize")
            assert tidy["excludeByName"] == {"Time": True, "__name__": True}, (name, panel["title"])


def test_lines_of_gpus_are_named_by_the_start_of_a_uuid() -> None:
    """Four whole UUIDs leave half of a panel to its legend."""
    whole = [query for query in panel_queries() if query.legend == "{{gpu_uuid}}"]
    assert len(whole) == 9
    assert [str(query) for query in whole if not query.expression.startswith("label_replace(")] == []


def test_what_seldom_occurs_is_not_in_a_legend_before() -> None:
    """Each reason of a counter is exposed as 0 from the start, and a dozen of them do not fit in a legend."""
    many = re.compile(r"reason|stopped|revoked")
    seldom = [query for query in panel_queries() if many.search(query.legend)]
    assert len(seldom) == 7
    assert [str(query) for query in seldom if not query.expression.endswith(" > 0")] == []
