"""The commands that messages suggest, against the chart."""

from __future__ import annotations

import pytest
import yaml
from laneway.cli.job_format import OPERATOR_SELECTOR

from hack.chart.generated import CHART
from hack.verify.chart import rendered


@pytest.mark.parametrize("values", ["values.yaml", "ci/all-options-values.yaml"])
def test_the_hint_about_the_operator_selects_its_pods(values: str) -> None:
    labels = dict(label.split("=") for label in OPERATOR_SELECTOR.split(","))
    objects = [item for item in yaml.safe_load_all(rendered(CHART / values)) if item]
    templates = {
        item["metadata"]["name"]: item["spec"]["template"]["metadata"]["labels"]
        for item in objects
        if item["kind"] in ("Deployment", "DaemonSet")
    }
    selected = [name for name, found in templates.items() if labels.items() <= found.items()]
    assert len(selected) == 1
    assert selected[0].endswith("operator")
