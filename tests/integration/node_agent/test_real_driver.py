"""The watchdog and MPS on GPUs that NVML reports: the real source, over a stand-in for the driver's
library."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest
from laneway.node_agent.enforcement.mps_daemon import PROGRAM

from tests.support.node_agent.node import Node, eventually
from tests.support.node_agent.pod_cgroup import PodCgroup

pytestmark = [
    pytest.mark.skipif(
        os.geteuid() != 0, reason="pods' cgroups are root's, and so is the right to stop their processes"
    ),
    pytest.mark.skipif(
        os.readlink("/proc/self/ns/pid") != "pid:[4026531836]",
        reason="in another PID namespace than the host's, NVML does not show all processes, and no watchdog is claimed",
    ),
]

GPUS = ["GPU-11111111-0000-0000-0000-000000000000", "GPU-22222222-0000-0000-0000-000000000000"]
LIBRARY = Path(__file__).parents[2] / "support/node_agent/fake_nvml.c"
MPS_CONTROL = Path(__file__).with_name("fake_mps_control.py")
WORKS = "import time; print('ready', flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the driver's library and MPS' program."""
    folder = tmp_path_factory.mktemp("driver")
    flags = ["-shared", "-fPIC", "-O1", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run(["gcc", *flags, "-o", str(folder / "libnvidia-ml.so.1"), str(LIBRARY)], check=True)
    program = folder / PROGRAM
    program.write_text(f"#!{sys.executable}\n{MPS_CONTROL.read_text()}")
    program.chmod(0o755)
    return folder


@pytest.fixture
def pod() -> Iterator[PodCgroup]:
    made = PodCgroup()
    yield made
    made.remove()


@pytest.fixture
def make_node(tmp_path: Path, driver: Path) -> Iterator[Callable[..., Node]]:
    nodes = []

    def make(config: dict[str, Any]) -> Node:
        node = Node(tmp_path, gpuSource="nvml", health={"probeSeconds": 1}, **config)
        node.use_gpus(GPUS)
        node.environment = {"LD_LIBRARY_PATH": str(driver), "PATH": f"{driver}:{os.environ['PATH']}"}
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        node.terminate()  # in peace: then its MPS daemon ends with it
        node.end()


def start(node: Node, **driver: int) -> None:
    """Start the agent over a driver with these settings."""
    node.environment |= {f"FAKE_NVML_{name.upper()}": str(value) for name, value in driver.items()}
    node.start()


def gpu(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((node.root / "run/laneway/inventory.json").read_text())["gpus"][0]
    return found


def test_a_process_over_its_quota_in_nvml_is_stopped(make_node: Callable[..., Node], pod: PodCgroup) -> None:
    node = make_node({"watchdog": {"graceSeconds": 1, "killSeconds": 600}})
    process = pod.run([sys.executable, "-c", WORKS], node.container("greedy", 2, pod_uid=pod.uid))
    start(node, compute_processes=1, first_pid=process.pid)
    eventually("it has ended", lambda: process.poll() is not None, 40)
    assert process.returncode == -signal.SIGTERM
    assert (
        "its process holds 3.0 GiB of GPU memory as the driver reports" in node.session("greedy")["message"]
    )
    assert gpu(node)["enforcement"] == "Watchdog"


def test_clients_of_the_mps_server_are_at_level_mps(make_node: Callable[..., Node], pod: PodCgroup) -> None:
    node = make_node({"enforcement": {"level": "MPS"}})
    process = pod.run([sys.executable, "-c", WORKS], node.container("client", 50, pod_uid=pod.uid))
    start(
        node,
        compute_processes=1,
        mps_processes=1,
        first_pid=process.pid,
        mps_pid=process.pid,
        compute_mode=pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS,
    )
    node.container("bystander", 50, pod_uid=pod.uid.replace("-4", "-5"))
    eventually("MPS is in force", lambda: gpu(node)["enforcement"] == "MPS")
    assert gpu(node)["enforcement_reason"] == ""
    eventually("its process is a client", lambda: node.session("client")["enforcement"] == "MPS")
    assert node.session("bystander")["enforcement"] == "Watchdog", "it has no client there yet"
    pipe = node.root / "run/laneway/mps/pipe"
    daemon = int((pipe / "nvidia-cuda-mps-control.pid").read_text())
    assert f"starting for {','.join(GPUS)}" in (node.root / "run/laneway/mps/log/control.log").read_text()

    os.kill(daemon, signal.SIGKILL)
    became = f"enforcement level changed gpu={GPUS[0]} level="
    eventually(
        "it falls back meanwhile", lambda: f'{became}Watchdog reason="no MPS: the MPS control' in node.log
    )
    eventually("it is there again", lambda: node.log.count(f"{became}MPS") == 2)

    assert node.terminate() == 0
    assert not (pipe / "control").exists(), "it was told to quit"


@pytest.mark.parametrize(
    ("settings", "level", "says"),
    [
        ({"compute_processes": 1}, "Watchdog", "nvidia-smi --compute-mode EXCLUSIVE_PROCESS"),
        ({"compute_processes": 2}, "Cooperative", "NVML does not report the memory of process 101"),
    ],
)
def test_an_impossible_level_is_reported_with_the_reason(
    make_node: Callable[..., Node], settings: dict[str, int], level: str, says: str
) -> None:
    node = make_node({"enforcement": {"level": "MPS"}})
    start(node, **settings)
    eventually("it is said", lambda: says in gpu(node)["enforcement_reason"])
    assert gpu(node)["enforcement"] == level
