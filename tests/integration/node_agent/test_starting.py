"""Starting the agent with what people get wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from laneway.api.inventory import Inventory

from tests.support.node_agent.node import Node, eventually

MakeNode = Callable[..., Node]


def run(folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run the agent until it ends; returns its exit status and output."""
    command = [sys.executable, "-m", "laneway.node_agent.main", "--config", str(folder / "node.yaml")]
    command += ["--gpus", str(folder / "gpus.yaml"), "--root", str(folder), "--port", "0", *arguments]
    clean = {key: value for key, value in os.environ.items() if key not in ("KUBECONFIG", "NODE_NAME")}
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        env={**clean, "HOME": str(folder), **environment},
    )
    return done.returncode, done.stderr


WRONG = {
    "a field that is none": (
        "gpuSource: simulated\nturns: {polici: fair}",
        "gpus: [{}]",
        "node.yaml: turns.polici: Extra inputs",
    ),
    "a value out of range": (
        "reserveMebibytes: -1",
        "",
        "node.yaml: reserveMebibytes: Input should be greater",
    ),
    "no YAML": ("a: [", "", "node.yaml: this is not YAML"),
    "no GPU": ("gpuSource: simulated", "gpus: []", "gpus.yaml: gpus: Tuple should have at least 1 item"),
    "a link to nowhere": (
        "gpuSource: simulated",
        "gpus: [{count: 2}]\nnvlinks: [[0, 2]]",
        "must be two different indices from 0 to 1",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_file_ends_the_start_and_names_the_field(tmp_path: Path, what: str) -> None:
    config, gpus, wanted = WRONG[what]
    (tmp_path / "node.yaml").write_text(config)
    (tmp_path / "gpus.yaml").write_text(gpus)
    status, said = run(tmp_path, "--standalone", "--node-name", "n1")
    assert status == 2
    assert wanted in said


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    status, said = run(tmp_path, "--standalone", "--node-name", "n1")
    assert (status, said) == (2, f"{tmp_path}/node.yaml: cannot be read: No such file or directory\n")


def test_without_a_node_name_the_error_says_how_to_set_it(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text("")
    status, said = run(tmp_path)  # with --standalone, the default would be the host name
    assert status == 2
    assert "set NODE_NAME" in said


def test_without_an_api_server_the_error_names_both_remedies(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text("gpuSource: simulated")
    (tmp_path / "gpus.yaml").write_text("gpus: [{}]")
    status, said = run(tmp_path, "--node-name", "n1")
    assert status == 2
    assert "set KUBECONFIG, or run with --standalone" in said


def test_a_port_that_is_taken_is_named(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node().start()
    (tmp_path / "node.yaml").write_text("gpuSource: simulated")
    (tmp_path / "gpus.yaml").write_text("gpus: [{}]")
    status, said = run(
        tmp_path, "--standalone", "--node-name", "n2", "--address", "127.0.0.1", "--port", str(node.port)
    )
    assert status == 1
    assert "Address already in use" in said


def test_without_a_driver_it_waits_for_one_and_ends_when_asked(make_node: MakeNode) -> None:
    node = make_node(gpuSource="nvml")
    node.launch("--standalone")
    eventually("the missing driver is named", lambda: "libnvidia-ml.so.1 is not in the container" in node.log)
    assert node.terminate() == 0


def test_a_node_without_gpus_answers_probes_and_tells_the_device_plugin(make_node: MakeNode) -> None:
    """The kubelet would restart a silent agent, and `helm install --wait` would wait for the pod."""
    node = make_node(gpuSource="nvml")
    node.launch("--standalone")
    served = eventually("it serves", lambda: re.search(r"serving without GPUs http=[\d.]+:(\d+)\s", node.log))
    node.port = int(served.group(1))

    assert node.get("/healthz") == "ok\n"
    inventory = Inventory.model_validate_json((node.root / "run/laneway/inventory.json").read_bytes())
    assert inventory.gpus == ()
    assert "libnvidia-ml.so.1 is not in the container" in inventory.no_gpus_reason


def test_standalone_mode_is_logged_and_sigterm_stops_the_agent(make_node: MakeNode) -> None:
    node = make_node().start()
    assert "standalone mode: no API server" in node.log
    assert node.terminate() == 0


def test_a_second_agent_waits_for_the_end_of_the_first(make_node: MakeNode) -> None:
    node = make_node().start()
    container = node.container("a").await_socket()
    process = container.process()
    process.hello()
    second = Node(node.root, node.name)
    second.log_name = "second.log"
    second.launch("--standalone")
    try:
        eventually("it waits", lambda: "another agent runs on this node" in second.log)
        assert process.turn() == 1, "the first goes on"
        node.kill()
        eventually("it takes over", lambda: "agent serves" in second.log)
    finally:
        second.end()
