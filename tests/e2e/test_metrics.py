"""A real Prometheus on the cluster: every panel of the dashboards shows something."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from hack.cluster.probes import wait_until
from hack.demo import prometheus
from tests.e2e.conftest import Bench, Laneway
from tests.e2e.manifests import EXCLUSIVE_NODE, training_job
from tests.support.dashboard_queries import panel_queries


@pytest.fixture
def metrics(laneway: Laneway) -> Iterator[prometheus.Prometheus]:
    started = prometheus.start(laneway.installation.target, laneway.api.server)
    try:
        yield started
    finally:
        started.end_children()


_ONLY_SOMETIMES = (
    "DCGM_",  # needs dcgm-exporter
    "laneway_gpu_last_xid_timestamp_seconds",  # needs a fault
    "laneway_session_progress_ratio",  # needs lanes that compete
    "laneway_job_goodput",
    "laneway_job_statistical_efficiency",
    "laneway_job_gradient_noise_scale",  # these three need a batch that the script reports
    "laneway_job_largest_tensor_bytes",  # needs a model that the client sees
    "unless on (namespace) topk(20, ",  # needs more namespaces
    "training_job:laneway_gpu_hours",  # is recorded every four minutes
)
"""What these jobs do not show, or not soon. tests/integration/charts/test_dashboards.py asks for everything."""


def expressions() -> dict[str, str]:
    """Each query of the dashboards by panel, for all namespaces, nodes and jobs at once. What shows only what occurred answers with zeros here."""
    everything = dict.fromkeys(("namespace", "training_job", "node", "gpu_uuid"), ".*")
    return {
        str(query): query.filled(everything, "30s").replace('=".*"', '=~".*"').removesuffix(" > 0")
        for query in panel_queries()
        if not any(name in query.expression for name in _ONLY_SOMETIMES)
    }


def test_every_panel_of_the_dashboards_shows_data(bench: Bench, metrics: prometheus.Prometheus) -> None:
    """With jobs that run, share a lane, wait, and end; each query has to answer with a number at some moment."""
    bench.jobs.apply(
        [
            *(training_job(name, steps=100_000, pace_seconds=0.01) for name in ("a", "b", "c")),
            training_job("waits", spec={"gpus": {"type": "Count", "count": 16}}),
            training_job("reports", steps=100_000, pace_seconds=0.01, report=True),
            training_job("whole", spec=EXCLUSIVE_NODE, steps=100_000, pace_seconds=0.05),
        ]
    )
    # Its wait and its end are an increase only if the namespace's series were scraped before.
    wait_until(
        lambda: bool(metrics.query("laneway_held_gpu_seconds_total")),
        "the jobs' namespace being scraped",
        180,
    )
    bench.jobs.apply([training_job("ends", steps=50, pace_seconds=0.01)])
    missing = expressions()
    assert len(missing) > 60
    deadline = time.monotonic() + 300

    def all_answered() -> bool:
        for name, expression in list(missing.items()):
            if any(sample["value"][1] != "NaN" for sample in metrics.query(expression)):
                del missing[name]
        return not missing or time.monotonic() > deadline

    wait_until(all_answered, "every panel showing data", 360)

    assert missing == {}
    # One late answer makes a target "down" until the next scrape.
    wait_until(lambda: set(metrics.targets().values()) == {"up"}, "all targets answer", 120)
