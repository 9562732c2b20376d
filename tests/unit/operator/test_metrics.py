"""What Prometheus reads."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request

from laneway.operator.cycle.held_parts import HeldParts
from laneway.operator.cycle.job_figures import job_gauges, no_gauges
from laneway.operator.http_server import serve
from laneway.operator.lifecycle import transitions
from laneway.operator.metrics import Metrics

from tests.unit.operator.builders import NOW, a_job, a_pod, reconciled_job_of

SERVICE = 'laneway_job_attained_service_gpu_seconds{namespace="ns",training_job="a"} 12.5'
HOLDS = 'laneway_job_gpu_share_ratio{gpu_uuid="n1/0",namespace="ns",node="n1",training_job="a"} 0.4'


def test_a_jobs_series_vanish_with_the_job() -> None:
    metrics = Metrics()
    builder = a_job("a").share(40).placed("n1", percent=40).running(since=NOW)
    job = builder.status(attained_service_gpu_milliseconds=12_500).record
    reconciled = reconciled_job_of(job, a_pod(job).running(since=NOW).record)
    metrics.show(lambda: job_gauges([reconciled], {("ns", "succeeded"): 2}, HeldParts(), NOW))
    page = metrics.render().decode()
    assert SERVICE in page
    assert HOLDS in page
    assert 'laneway_jobs{namespace="ns",state="running"} 1.0' in page
    assert 'laneway_jobs{namespace="ns",state="succeeded"} 2.0' in page
    assert 'laneway_jobs{namespace="ns",state="failed"} 0.0' in page
    assert "laneway_job_waiting_seconds{" not in page, "it does not wait"
    metrics.show(no_gauges)
    page = metrics.render().decode()
    assert "ns" not in {label for line in page.splitlines() for label in line.split('"')}


def test_a_suspended_job_is_counted_and_has_no_series_of_its_own() -> None:
    metrics = Metrics()
    builder = a_job("a").share(40).placed("n1", percent=40).running(since=NOW)
    job = builder.status(attained_service_gpu_milliseconds=12_500).record
    stopping = reconciled_job_of(
        builder.spec(suspend=True).record, a_pod(job).running(since=NOW).deleting().record
    )
    metrics.show(lambda: job_gauges([stopping], {}, HeldParts(), NOW))
    assert SERVICE in metrics.render().decode(), "its workers still save a checkpoint"

    suspended = builder.after(transitions.suspended, "Suspended.", NOW).record
    leaving = reconciled_job_of(suspended, a_pod(job).running(since=NOW).deleting().record)
    metrics.show(lambda: job_gauges([leaving], {}, HeldParts(), NOW + 5))
    page = metrics.render().decode()
    assert 'training_job="a"' in page
    assert "laneway_job_waiting_seconds{" not in page, "LanewayJobWaitsLong is for those that want to run"

    at_rest = reconciled_job_of(suspended)
    metrics.show(lambda: job_gauges([at_rest], {}, HeldParts(), NOW))
    page = metrics.render().decode()
    assert 'laneway_jobs{namespace="ns",state="suspended"} 1.0' in page
    assert 'training_job="a"' not in page


async def test_health_is_told_with_the_reason() -> None:
    problem = [""]

    def get(port: int, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    async with serve("127.0.0.1", 0, Metrics(), healthy=lambda: problem[0], ready=lambda: "") as port:
        assert await asyncio.to_thread(get, port, "/healthz") == (200, "ok\n")
        problem[0] = "the engine sleeps"
        assert await asyncio.to_thread(get, port, "/healthz") == (503, "the engine sleeps\n")
        assert await asyncio.to_thread(get, port, "/readyz") == (200, "ok\n")
        status, page = await asyncio.to_thread(get, port, "/metrics")
        assert status == 200
        assert "laneway_cycle_duration_seconds_bucket" in page
