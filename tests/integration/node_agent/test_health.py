"""Failures of a GPU under a real agent: how they are reported, and how it recovers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from laneway.node_agent.main import main

from tests.support.node_agent.node import Node, eventually

MakeNode = Callable[..., Node]
QUICK = {"probeSeconds": 1, "cleanSeconds": 1, "cleanProbes": 1}


def say(node: Node, text: str) -> None:
    """Replace the file of faults."""
    path = node.root / "run/laneway/simulated-faults.yaml"
    temporary = path.with_name("faults.new")
    temporary.write_text(text)
    temporary.rename(path)


def gpu(node: Node, index: int = 0) -> dict[str, Any]:
    """What the device plugin reads of a GPU."""
    inventory: dict[str, Any] = json.loads((node.root / "run/laneway/inventory.json").read_text())
    found: dict[str, Any] = inventory["gpus"][index]
    return found


def until_healthy(node: Node, healthy: bool) -> None:
    eventually(f"healthy is {healthy}", lambda: gpu(node)["healthy"] is healthy)


def test_an_xid_is_reported_everywhere_and_survives_the_agent(make_node: MakeNode) -> None:
    node = make_node(health=QUICK).start()
    assert gpu(node)["healthy"]
    say(node, "gpus: [{gpu: 0, xids: [79, 13]}]")
    until_healthy(node, False)
    assert "XID 79 (GPU has fallen off the bus); it needs a reset" in gpu(node)["health_reason"]
    assert gpu(node, 1)["healthy"]
    metrics = node.get("/metrics")
    assert f'laneway_gpu_healthy{{gpu_uuid="{node.gpus[0]}",node="n1"}} 0.0' in metrics
    assert f'laneway_gpu_healthy{{gpu_uuid="{node.gpus[1]}",node="n1"}} 1.0' in metrics
    for xid, xid_class in ((13, "ignored"), (79, "reset")):
        labels = f'class="{xid_class}",gpu_uuid="{node.gpus[0]}",node="n1",xid="{xid}"'
        assert f"laneway_gpu_xid_errors_total{{{labels}}} 1.0" in metrics
        assert f"laneway_gpu_last_xid_timestamp_seconds{{{labels}}} 1." in metrics
    assert f'GPU unhealthy gpu={node.gpus[0]} reason="XID 79' in node.log
    assert "xid='XID 13 (graphics engine exception)" in node.log

    reason = gpu(node)["health_reason"]
    node.kill()
    (node.root / "run/laneway/inventory.json").unlink()
    say(node, "")
    node.start()
    eventually("the inventory is there again", (node.root / "run/laneway/inventory.json").exists)
    assert (gpu(node)["healthy"], gpu(node)["health_reason"]) == (False, reason)

    assert main(["gpu", "--root", str(node.root), "clear", "0"]) == 0
    until_healthy(node, True)
    assert "cleared by an operator" in node.log
    node.kill()
    node.start()
    assert gpu(node)["healthy"]


def test_a_gpu_that_may_come_back_does_so_by_itself(make_node: MakeNode) -> None:
    node = make_node(health=QUICK).start()
    say(node, "gpus: [{gpu: 0, lost: true}]")
    until_healthy(node, False)
    assert "fell off the bus" in gpu(node)["health_reason"]
    say(node, "")
    until_healthy(node, True)
    assert gpu(node)["health_reason"] == ""


def test_a_hanging_driver_blocks_nothing_else(make_node: MakeNode) -> None:
    node = make_node(health=QUICK).start()
    process = node.container("a", 50).await_socket().process()
    process.hello()
    say(node, "gpus: [{gpu: 0, hangs: true}]")
    until_healthy(node, False)
    assert "no answer within 5 s" in gpu(node)["health_reason"]
    assert gpu(node, 1)["healthy"]
    process.turn()
    say(node, "")
    until_healthy(node, True)


def test_an_invalid_faults_file_is_logged_and_changes_nothing(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node(health=QUICK).start()
    say(node, "gpus: [{gpu: 0, lots: true}]")
    eventually("the mistake is logged", lambda: "gpus.0.lots: Extra inputs are not permitted" in node.log)
    assert gpu(node)["healthy"]


def test_an_inventory_that_cannot_be_written_is_written_later(make_node: MakeNode) -> None:
    node = make_node(health=QUICK).start()
    inventory = node.root / "run/laneway/inventory.json"
    inventory.unlink()
    inventory.mkdir()
    (inventory / "in the way").touch()
    say(node, "gpus: [{gpu: 0, xids: [79]}]")
    eventually("the GPU is unhealthy", lambda: f"GPU unhealthy gpu={node.gpus[0]}" in node.log)
    eventually("it was to be written", lambda: "cannot write the inventory" in node.log)
    (inventory / "in the way").unlink()
    inventory.rmdir()
    eventually("it is written", inventory.is_file)
    assert not gpu(node)["healthy"]
    say(node, "gpus: [{gpu: 0, xids: [79]}, {gpu: 1, xids: [79]}]")
    eventually("XIDs are still heard", lambda: not gpu(node, 1)["healthy"])
    assert node.log.count("cannot write the inventory") == 1
