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
VALUES = (CHART / "values.yaml").read_text(encoding="utf-8")
RUNBOOKS = (ROOT / "docs" / "runbooks.md").read_text(encoding="utf-8")


THRESHOLDS: dict[str, tuple[float, str, str]] = {
    "cycleSeconds": (7.5, "LanewayCycleSlow", "> 7.5"),
    "waitingSeconds": (3_600_000, "LanewayJobWaitsLong", "> 3.6e+06"),
    "gangRollbacks": (11, "LanewayGangRollbacks", "> 11"),
    "revokedTurns": (12, "LanewayTurnsRevoked", "> 12"),
    "evictions": (13, "LanewayWatchdogEvictions", "> 13"),
    "failedJobRatio": (0.25, "LanewayJobsFail", "> 0.25"),
    "endedJobs": (14, "LanewayJobsFail", ">= 14)"),
    "apiErrorRatio": (0.35, "LanewayAPIErrors", "> 0.35"),
}
"""A value other than the chart's own for each threshold, with its alert and what the alert then compares with."""


def alerts(spec: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    groups = (spec or rules())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


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
    assert set(expected) == alerts().keys()


def test_every_alert_fires_beside_the_component_whose_fault_it_is_for() -> None:
    """docs/runbooks.md says that no alert is tested with written series only."""
    files = [*TESTS.glob("*/test_alerts.py"), TESTS / "operator/test_silent_agents.py"]
    awaited = {name for file in files for name in re.findall(r'"(Laneway\w+)"', file.read_text("utf-8"))}
    assert awaited == alerts().keys()


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


def test_each_threshold_is_a_value(tmp_path: Path) -> None:
    thresholds = {name: threshold for name, (threshold, _, _) in THRESHOLDS.items()}
    values = tmp_path / "values.yaml"
    values.write_text(
        yaml.safe_dump({"metrics": {"prometheusRule": {"enabled": True, "thresholds": thresholds}}})
    )
    assert set(thresholds) == set(yaml.safe_load(VALUES)["metrics"]["prometheusRule"]["thresholds"])
    rendered_alerts = alerts(prometheus_rule(values))
    for _, alert, comparison in THRESHOLDS.values():
        assert comparison in rendered_alerts[alert]["expr"]
    others = alerts().keys() - {alert for _, alert, _ in THRESHOLDS.values()}
    assert {name: rendered_alerts[name] for name in others} == {name: alerts()[name] for name in others}


@pytest.mark.parametrize(
    "thresholds",
    [*({name: None} for name in THRESHOLDS), dict.fromkeys(THRESHOLDS), None],
    ids=[*THRESHOLDS, "each", "all at once"],
)
def test_a_threshold_that_the_values_lack_is_the_default(
    thresholds: dict[str, None] | None, tmp_path: Path
) -> None:
    """As with `helm upgrade --reuse-values` from a chart that had it not yet; null removes it in the same way."""
    values = tmp_path / "values.yaml"
    values.write_text(
        yaml.safe_dump({"metrics": {"prometheusRule": {"enabled": True, "thresholds": thresholds}}})
    )
    assert prometheus_rule(values) == rules()


def test_a_threshold_of_zero_is_not_taken_for_none(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("metrics: {prometheusRule: {enabled: true, thresholds: {revokedTurns: 0}}}")
    assert alerts(prometheus_rule(values))["LanewayTurnsRevoked"]["expr"].endswith("> 0")


def test_an_alert_can_be_left_out_and_the_address_of_the_runbooks_is_a_value() -> None:
    changed = alerts(prometheus_rule(CHART / "ci" / "all-options-values.yaml"))
    assert changed.keys() == alerts().keys() - {"LanewayJobLossNotANumber"}
    url = "https://runbooks.example.com/laneway#lanewaycycleslow"
    assert changed["LanewayCycleSlow"]["annotations"]["runbook_url"] == url


def test_without_any_alert_the_recording_rules_remain(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    disabled = dict.fromkeys(alerts(), True)
    values.write_text(
        yaml.safe_dump({"metrics": {"prometheusRule": {"enabled": True, "disabled": disabled}}})
    )
    recording = [group for group in rules()["groups"] if group["name"] != "laneway"]
    assert prometheus_rule(values)["groups"] == recording


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
    named = {name: rule["annotations"]["runbook_url"] for name, rule in alerts().items()}
    page = f"https://github.com/laneway/laneway/blob/v{version()}/docs/runbooks.md"
    assert named == {section: f"{page}#{section.lower()}" for section in sections}


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_a_runbook_names_the_threshold_of_its_alert_and_the_default(threshold: str) -> None:
    _, alert, _ = THRESHOLDS[threshold]
    default = yaml.safe_load(VALUES)["metrics"]["prometheusRule"]["thresholds"][threshold]
    section = RUNBOOKS.partition(f"## {alert}\n")[2].partition("\n## ")[0]
    shown = {"waitingSeconds": "a day", "cycleSeconds": "5 s"}.get(threshold, default)
    assert f"`{threshold}` ({shown})" in section
    assert default == {"waitingSeconds": 86400, "cycleSeconds": 5}.get(threshold, default)
