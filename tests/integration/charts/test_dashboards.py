"""A real Prometheus scrapes what a cluster with 500 jobs exposes: every query of every dashboard has an answer that people can read."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from hack.cluster.probes import wait_until
from hack.dashboards.files import dashboards
from tests.integration.charts.large_cluster import (
    GPUS_OF_NODE,
    JOBS,
    NAMESPACES,
    NODES,
    PAUSED_JOB,
    Exporter,
    gpu_labels,
    job_labels,
)
from tests.support.dashboard_queries import PanelQuery, panel_queries, variable_queries
from tests.support.prometheus_process import Prometheus, prometheus

_MOST_LINES = 24
"""More lines than this cannot be told apart on a panel."""

_VARIABLES = {
    "cluster": {"namespace": ".*", "node": ".*"},
    "tenant": {"namespace": ".*"},
    "job": job_labels(PAUSED_JOB),
    "gpu": {"node": gpu_labels(0)["node"], "gpu_uuid": ".*"},
}
"""What Grafana chooses at first: all of several, one of one."""


@pytest.fixture(scope="module")
def exporter() -> Iterator[str]:
    """The address of all components' pages."""
    pages, exported = {}, Exporter()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            component = self.path.strip("/")
            if component not in pages:
                pages.update(exported.pages())
            text = pages.pop(component).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=listening.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{listening.server_address[1]}"
    listening.shutdown()
    listening.server_close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, exporter: str) -> Iterator[Prometheus]:
    """A Prometheus that scrapes all of them."""
    targets = {component: f"{exporter}/{component}" for component in Exporter().pages()}
    with prometheus(tmp_path_factory.mktemp("prometheus"), targets, scrape_seconds=3) as running:
        yield running


def numbers(samples: list[dict[str, Any]]) -> list[float]:
    return [value for sample in samples if not math.isnan(value := float(sample["value"][1]))]


@pytest.fixture(scope="module")
def answers(server: Prometheus) -> dict[PanelQuery, list[dict[str, Any]]]:
    """The answers of all queries, once each has one, or after a time."""
    missing, found = set(panel_queries()), {}
    deadline = time.monotonic() + 120

    def all_answered() -> bool:
        for query in list(missing):
            samples = server.samples(query.filled(_VARIABLES[query.dashboard], "1m"))
            if numbers(samples):
                found[query] = samples
                missing.discard(query)
        return not missing or time.monotonic() > deadline

    wait_until(all_answered, "every query having an answer", 180)
    return found


def test_every_query_of_every_dashboard_has_data(answers: dict[PanelQuery, list[dict[str, Any]]]) -> None:
    assert [str(query) for query in panel_queries() if query not in answers] == []


def test_panels_can_be_read_with_500_jobs(answers: dict[PanelQuery, list[dict[str, Any]]]) -> None:
    lines: dict[tuple[str, str], int] = {}
    for query, samples in answers.items():
        if query.kind != "table":
            panel = (query.dashboard, query.panel)
            lines[panel] = lines.get(panel, 0) + len(samples)
    assert {panel: number for panel, number in lines.items() if number > _MOST_LINES} == {}


def test_variables_offer_what_there_is(
    server: Prometheus, answers: dict[PanelQuery, list[dict[str, Any]]]
) -> None:
    """Grafana asks for the choices of a variable with what is chosen of those before it."""
    namespace = job_labels(PAUSED_JOB)["namespace"]
    jobs = [each for each in map(job_labels, range(JOBS)) if each["namespace"] == namespace]
    expected = {
        "cluster": {"namespace": NAMESPACES, "node": NODES},
        "tenant": {"namespace": NAMESPACES},
        "job": {"namespace": NAMESPACES, "training_job": [job["training_job"] for job in jobs]},
        "gpu": {
            "node": NODES,
            "gpu_uuid": [gpu_labels(number)["gpu_uuid"] for number in range(GPUS_OF_NODE)],
        },
    }
    offered = {
        name: {
            variable: server.label_values(query) for variable, query in variable_queries(name, chosen).items()
        }
        for name, chosen in _VARIABLES.items()
    }
    assert offered.keys() == dashboards().keys()
    assert offered == {
        name: {variable: sorted(values) for variable, values in each.items()}
        for name, each in expected.items()
    }


def test_jobs_in_a_table_have_one_row_each(answers: dict[PanelQuery, list[dict[str, Any]]]) -> None:
    (shares,) = (
        samples
        for query, samples in answers.items()
        if query.panel == "Unfinished jobs" and "gpu_share" in query.expression
    )
    assert len(shares) == 400
    assert len({tuple(sample["metric"].items()) for sample in shares}) == 400


def test_dcgm_is_joined_by_the_gpu(answers: dict[PanelQuery, list[dict[str, Any]]]) -> None:
    """Each namespace has 10 running jobs with half a GPU of 0.5 W, and half of the namespaces have a line of their own."""
    power = {
        query.legend: {sample["metric"].get("namespace"): float(sample["value"][1]) for sample in samples}
        for query, samples in answers.items()
        if query.panel == "Power by namespace (DCGM)"
    }
    assert len(power["{{namespace}}"]) == 20
    assert set(power["{{namespace}}"].values()) == {2.5}
    assert power["others"] == {None: pytest.approx(20 * 2.5)}
