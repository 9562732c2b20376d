"""Where a user reads that a pod uses a GPU without a share of it."""

from __future__ import annotations

from laneway.node_agent.enforcement.stray_status import record_strays
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.report.node_status import node_status
from laneway.node_agent.report.snapshot import take_snapshot
from laneway.node_agent.turns.stray_report import StrayReport, StrayUse

from tests.support.node_agent.gpu_bench import GPU, GPUBench

SAID = f"container without a share of {GPU} holds 1.0 GiB of its memory; will be stopped after 30 s"


def record(bench: GPUBench, *pods: str) -> tuple[str, str]:
    """Record that pods use the GPU; returns what the GPU and the first session say."""
    report = StrayReport(tuple(StrayUse(pod, 1, SAID) for pod in pods), 1)
    record_strays({GPU: bench.turns}, GPU, report, bench)
    snapshot = take_snapshot(bench.turns, bench.clock.monotonic())
    gpu = node_status([(snapshot, GPUHealth())], ()).gpus[0]
    return gpu.health_reason, gpu.sessions[0].message


def test_the_pods_session_says_it_and_for_other_pods_the_gpu_does() -> None:
    bench = GPUBench()
    lease = bench.container("a", 50)
    lease.record = lease.record.model_copy(update={"pod_uid": "uid-a"})
    assert record(bench, "uid-a") == ("", f"another {SAID}")
    assert record(bench, "uid-a", "uid-b") == (f"pod uid-b: a {SAID}", f"another {SAID}")
    changes = bench.changes
    assert record(bench, "uid-a", "uid-b") == (f"pod uid-b: a {SAID}", f"another {SAID}")
    assert bench.changes == changes, "nothing new is nothing to publish"
    assert record(bench) == ("", "")


def test_a_failed_allocation_on_a_full_gpu_counts_for_a_moment_even_if_its_container_ends() -> None:
    bench = GPUBench()
    process = bench.process(bench.container("a", 50))
    bench.turns.record_device_full(process.lease, "found the GPU full")
    bench.turns.remove_container(process.lease.key)
    assert bench.turns.found_device_full() == {process.lease.key: process.lease.quota_bytes}
    bench.clock.advance(11)
    assert bench.turns.found_device_full() == {}
