"""The chart's rules for Prometheus as the chart renders them with its default values: for promtool, and for a Prometheus without the
Prometheus operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[2] / "charts" / "laneway"
RULES = CHART / "files" / "rules"


def rules(**thresholds: float) -> dict[str, Any]:
    """Returns the recording rules and alerts as a rule file has them, with these thresholds in place of the values' own."""
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["metrics"]["prometheusRule"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    runbooks = f"{chart['home']}/blob/v{chart['version']}/docs/runbooks.md"
    alerts = (RULES / "alerts.yaml").read_text(encoding="utf-8")
    for name, value in {"runbooks": runbooks, **values["thresholds"], **thresholds}.items():
        alerts = alerts.replace(f"${{{name}}}", str(value))
    recording = (RULES / "recording.yaml").read_text(encoding="utf-8")
    return {"groups": [*yaml.safe_load(recording)["groups"], *yaml.safe_load(alerts)["groups"]]}
