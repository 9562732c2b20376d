"""The chart's recording rules, alerts and dashboards: rendered by helm, tried by promtool, each alert with a test and a runbook."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.chart.generated import CHART, ROOT
from hack.chart.rules import rules
from hack.dashboards.files import dashboards
from hack.images.targets import version
from hack.verify.chart import rendered, rendered_objects
from hack.verify.failure import CheckFailedError

CASES = Path(__file__).parent / "rules"
TESTS = Path(__file__).parents[1]
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")


def alerts() -> list[dict[str, Any]]:
    return [rule for group in rules()["groups"] for rule in group["rules"] if "alert" in rule]


def prometheus_rule(values: Path) -> dict[str, Any]:
    (found,) = (each for each in rendered_objects(values) if each["kind"] == "PrometheusRule")
    spec: dict[str, Any] = found["spec"]
    return spec


@pytest.mark.parametrize("cases", sorted(CASES.glob("*.yaml")), ids=lambda path: path.stem)
def test_rules_do_what_promtool_expects(cases: Path, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules()), encoding="utf-8")
    shutil.copy(cases, tmp_path)
    command = ["promtool", "test", "rules", cases.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_in_a_test() -> None:
    expected = re.findall(
        r"ALERTS\{alertname=\"(\w+)\", alertstate=\"firing\"", (CASES / "alerts.yaml").read_text()
    )
    assert set(expected) == {rule["alert"] for rule in alerts()}


def test_every_alert_fires_beside_the_component_whose_fault_it_is_for() -> None:
    """docs/runbooks.md says that no alert is tested with written series only."""
    files = [*TESTS.glob("*/test_alerts.py"), TESTS / "operator/test_silent_agents.py"]
    awaited = {name for file in files for name in re.findall(r'"(Laneway\w+)"', file.read_text("utf-8"))}
    assert awaited == {rule["alert"] for rule in alerts()}


def test_helm_renders_the_rules_with_the_chart_s_values(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("metrics: {prometheusRule: {enabled: true}}")
    assert prometheus_rule(values) == rules()


def test_the_config_map_has_every_dashboard() -> None:
    (found,) = (
        each
        for each in rendered_objects(CHART / "ci" / "all-options-values.yaml")
        if each["metadata"]["name"].endswith("-dashboards")
    )
    assert {name: json.loads(text) for name, text in found["data"].items()} == {
        f"laneway-{name}.json": dashboard for name, dashboard in dashboards().items()
    }


def test_thresholds_and_runbooks_are_values() -> None:
    spec = prometheus_rule(CHART / "ci" / "all-options-values.yaml")
    changed = {rule["alert"]: rule for group in spec["groups"] for rule in group["rules"] if "alert" in rule}
    assert changed["LanewayJobWaitsLong"]["expr"].endswith("> 3.6e+06")
    assert changed["LanewayJobsFail"]["expr"].endswith("> 0.25")
    url = "https://runbooks.example.com/laneway#lanewaycycleslow"
    assert changed["LanewayCycleSlow"]["annotations"]["runbook_url"] == url


@pytest.mark.parametrize(
    "runbooks", ["{{ $labels.site }}/runbooks", "See: the page", "a # b", 'it\'s "there"', "${cycleSeconds}"]
)
def test_the_address_of_the_runbooks_is_rendered_as_it_is(runbooks: str, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(
        yaml.safe_dump({"metrics": {"prometheusRule": {"enabled": True, "runbooks": runbooks}}})
    )
    spec = prometheus_rule(values)
    urls = {
        rule["annotations"]["runbook_url"]
        for group in spec["groups"]
        for rule in group["rules"]
        if rule.get("alert") == "LanewayCycleSlow"
    }
    assert urls == {f"{runbooks}#lanewaycycleslow"}


@pytest.mark.parametrize(("seconds", "accepted"), [(29.9, True), (30, False)])
def test_a_threshold_that_no_cycle_would_exceed_is_refused(
    seconds: float, accepted: bool, tmp_path: Path
) -> None:
    """A histogram's quantile is at most the upper bound of its last bucket but one."""
    values = tmp_path / "values.yaml"
    values.write_text(f"metrics: {{prometheusRule: {{thresholds: {{cycleSeconds: {seconds}}}}}}}")
    with nullcontext() if accepted else pytest.raises(CheckFailedError, match="exclusiveMaximum"):
        rendered(values)


def test_every_alert_has_a_runbook() -> None:
    """GitHub's and mkdocs' anchor of a heading is its text in small letters."""
    sections = re.findall(r"^## (\w+)$", RUNBOOKS, re.MULTILINE)
    named = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in alerts()}
    page = f"https://github.com/laneway/laneway/blob/v{version()}/docs/runbooks.md"
    assert named == {section: f"{page}#{section.lower()}" for section in sections}
