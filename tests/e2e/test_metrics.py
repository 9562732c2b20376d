"""A real Prometheus on the cluster: every panel of the dashboard shows something."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from hack.cluster.probes import wait_until
from hack.demo import prometheus
from tests.e2e.conftest import Bench, Laneway
from tests.e2e.manifests import EXCLUSIVE_NODE, training_job


@pytest.fixture
def metrics(laneway: Laneway) -> Iterator[prometheus.Prometheus]:
    started = prometheus.start(laneway.installation.target, laneway.api.server)
    try:
        yield started
    finally:
        started.end_children()


def expressions() -> dict[str, str]:
    """Each query of the dashboard by panel, with Grafana's variables filled in."""
    panels = json.loads(prometheus.DASHBOARD.read_text())["panels"]
    nested = [*panels, *(inner for panel in panels for inner in panel.get("panels", ()))]
    return {
        f"{panel['title']}: {target['expr']}": target["expr"]
        .replace("$node", ".*")
        .replace("$__rate_interval", "30s")
        for panel in nested
        for target in panel.get("targets", ())
    }


def test_every_panel_of_the_dashboard_shows_data(bench: Bench, metrics: prometheus.Prometheus) -> None:
    """With jobs that run, share a lane, and wait; each query has to answer with a number at some moment."""
    bench.jobs.apply(
        [
            *(training_job(name, steps=100_000, pace_seconds=0.01) for name in ("a", "b", "c")),
            training_job("waits", spec={"gpus": {"type": "Count", "count": 16}}),
            training_job("reports", steps=100_000, pace_seconds=0.01, report=True),
            training_job("whole", spec=EXCLUSIVE_NODE, steps=100_000, pace_seconds=0.05),
        ]
    )
    missing = expressions()
    assert len(missing) > 20
    deadline = time.monotonic() + 120

    def all_answered() -> bool:
        for name, expression in list(missing.items()):
            if any(sample["value"][1] != "NaN" for sample in metrics.query(expression)):
                del missing[name]
        return not missing or time.monotonic() > deadline

    wait_until(all_answered, "every panel showing data", 150)

    assert missing == {}
    assert set(metrics.targets().values()) == {"up"}
