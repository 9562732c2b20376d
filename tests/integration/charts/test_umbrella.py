"""The chart as a part of another one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from hack.chart.generated import CHART
from hack.cluster.build import built
from hack.verify.chart import kubernetes_version


@pytest.mark.parametrize("enabled", [True, False])
def test_another_chart_switches_it_on_and_off(tmp_path: Path, enabled: bool) -> None:
    own = yaml.safe_load((CHART / "Chart.yaml").read_text())
    part = {"name": "laneway", "version": own["version"], "condition": "laneway.enabled"}
    platform = {"apiVersion": "v2", "name": "platform", "version": "1.0.0", "dependencies": [part]}
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(platform))
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"laneway": {"enabled": enabled}}))
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "laneway").symlink_to(CHART)
    done = subprocess.run(
        [str(built("helm")), "template", "laneway", str(tmp_path), "--kube-version", kubernetes_version()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ("kind: DaemonSet" in done.stdout) is enabled
