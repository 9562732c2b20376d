"""The status that a node publishes of what its clients report."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from laneway.api.enforcement import Enforcement
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.gpus.protocol import GPUReading
from laneway.node_agent.report.node_status import node_status
from laneway.node_agent.report.snapshot import take_snapshot
from laneway.node_agent.sessions.packets import decode
from laneway.node_agent.turns.session import Sizes

from tests.support.node_agent.gpu_bench import MIB, GPUBench

ABSURD = {
    "type": "profile",
    "persistent_bytes": MIB,
    "ephemeral_bytes": MIB,
    "framework_bytes": 0,
    "iteration_seconds": 1e-300,
    "iterations": 10,
    "largest_tensor_bytes": 0,
    "model_bytes": 0,
    "data_seconds": 1e9,
}


@pytest.mark.parametrize("remaining_seconds", [0.0, 1e9])
def test_absurd_times_of_one_client_do_not_keep_the_node_from_reporting(remaining_seconds: float) -> None:
    fields = dict(decode(json.dumps({**ABSURD, "remaining_seconds": remaining_seconds}).encode()).fields)
    del fields["type"]
    bench = GPUBench()
    process = bench.job("a", 10, 20)
    bench.turns.measure(process.lease, process.session, Sizes(**fields))
    snapshot = take_snapshot(bench.turns, bench.clock.monotonic())
    assert node_status([(snapshot, GPUHealth())], ()).to_json()["gpus"][0]["sessions"][0]["pod"] == "a"


@pytest.mark.parametrize(
    ("exclusive", "level", "warns"),
    [
        (False, Enforcement.INTERPOSER, False),
        (True, Enforcement.INTERPOSER, True),
        (True, Enforcement.MPS, False),
    ],
)
def test_a_gpu_with_room_for_one_process_says_so_unless_mps_shares_it(
    exclusive: bool, level: Enforcement, warns: bool
) -> None:
    bench = GPUBench()
    snapshot = take_snapshot(bench.turns, bench.clock.monotonic())
    gpu = snapshot.gpu.model_copy(update={"enforcement": level})
    health = GPUHealth(reading=GPUReading(used_bytes=0, exclusive_process=exclusive))
    (status,) = node_status([(replace(snapshot, gpu=gpu), health)], ()).gpus
    assert status.healthy
    assert ("compute mode is EXCLUSIVE_PROCESS" in status.health_reason) is warns
