"""Measures 1, 2 and 4 jobs on one GPU in all ways of sharing it: throughput, job completion times (JCT), memory.

Each round measures all ways in turn, so that changes on the machine affect all of them alike. A job trains for a fixed number
of iterations, after a warm-up, on batches that are already on the GPU: the figures do not include loading data.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.performance.gpu.plan import Plan, plan_for
from tests.performance.gpu.ways import Way, all_ways
from tests.support.gpu.driver import nvml
from tests.support.gpu.gpu_memory import Gauge


@dataclass(frozen=True)
class Run:
    """One measurement: a number of jobs that share the GPU in one way."""

    makespan_seconds: float
    mean_jct_seconds: float
    samples_per_second: float
    beyond_idle_bytes: int | None
    """Peak memory use minus the use before the run, which includes the contexts and weights of all waiting workers."""


def measure(device: str) -> dict[str, Any]:
    """Return all figures of a machine's first GPU."""
    gpu = nvml()[0] if device == "cuda" else None
    plan = plan_for(device, gpu["memory_bytes"] if gpu else 0)
    until = time.monotonic() + plan.limit_seconds
    gauge = Gauge(gpu["uuid"] if gpu else None)
    found: dict[str, Any] = {"gpu": _describe(gpu), "networks": []}
    for left, network in zip(range(len(plan.batches), 0, -1), plan.batches, strict=True):
        now = time.monotonic()
        found["networks"].append(_measure_network(plan, network, gauge, now + max(0.0, until - now) / left))
    return found


def _describe(gpu: dict[str, Any] | None) -> dict[str, Any]:
    if gpu is None:
        return {"name": "none: tensors of a CPU, so the figures say nothing about a GPU", "driver": ""}
    import pynvml

    pynvml.nvmlInit()
    return {
        "name": gpu["model"],
        "memory_bytes": gpu["memory_bytes"],
        "driver": pynvml.nvmlSystemGetDriverVersion(),
    }


def _measure_network(plan: Plan, network: str, gauge: Gauge, until: float) -> dict[str, Any]:
    with all_ways(plan, network) as (ways, left_out):
        plain = ways[0].workers[0]
        trial = plain.do("train", iterations=plan.warm_up)
        iteration_seconds = (trial["ended_ns"] - trial["began_ns"]) / 1e9 / plan.warm_up
        plain.do("rest")
        iterations = max(3, round(plan.job_seconds / iteration_seconds))
        batch = plan.batches[network]
        runs: dict[tuple[int, str], list[Run]] = {}
        for number in range(plan.rounds):
            if number and time.monotonic() > until:
                break
            for crowd in plan.crowds:
                for way in _rotated(ways, number):
                    run = _run(way, crowd, iterations, batch, gauge)
                    runs.setdefault((crowd, way.name), []).append(run)
        return {
            "network": network,
            "torch": plain.ready["torch"],
            "cuda": plain.ready["cuda"],
            "batch": batch,
            "iterations_per_job": iterations,
            "left_out": left_out,
            "crowds": [
                {"jobs": crowd, "ways": [_summary(way.name, runs[crowd, way.name]) for way in ways]}
                for crowd in plan.crowds
            ],
        }


def _rotated(ways: Sequence[Way], number: int) -> Sequence[Way]:
    first = number % len(ways)
    return [*ways[first:], *ways[:first]]


def _run(way: Way, crowd: int, iterations: int, batch: int, gauge: Gauge) -> Run:
    idle_bytes = gauge.used_bytes()
    with gauge.watch() as highest:
        answers = way.run(way.workers[:crowd], iterations)
    began_ns = min(answer["began_ns"] for answer in answers)
    jcts = [(answer["ended_ns"] - began_ns) / 1e9 for answer in answers]
    return Run(
        makespan_seconds=max(jcts),
        mean_jct_seconds=statistics.mean(jcts),
        samples_per_second=crowd * iterations * batch / max(jcts),
        beyond_idle_bytes=highest[0] - idle_bytes if highest and idle_bytes is not None else None,
    )


def _summary(name: str, runs: Sequence[Run]) -> dict[str, Any]:
    """The medians, and how far the rounds were apart."""
    makespans = [run.makespan_seconds for run in runs]
    memory = [run.beyond_idle_bytes for run in runs if run.beyond_idle_bytes is not None]
    return {
        "way": name,
        "rounds": len(runs),
        "samples_per_second": round(statistics.median(run.samples_per_second for run in runs), 1),
        "makespan_seconds": round(statistics.median(makespans), 3),
        "makespan_spread_percent": round(100 * (max(makespans) / min(makespans) - 1), 1),
        "mean_jct_seconds": round(statistics.median(run.mean_jct_seconds for run in runs), 3),
        "beyond_idle_bytes": max(memory) if memory else None,
    }
