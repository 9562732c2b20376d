"""The watchdog and MPS on GPUs that NVML reports: the real source, over a stand-in for the driver's
library."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pynvml
import pytest
from laneway.node_agent.enforcement.mps_control import PROGRAM, MPSControl, MPSFolders

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
GIB = 1 << 30
WORKS = "import time; print('ready', flush=True); time.sleep(600)"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the driver's library and MPS' program."""
    folder = tmp_path_factory.mktemp("driver")
    flags = ["-shared", "-fPIC", "-O1", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run(["gcc", *flags, "-o", str(folder / "libnvidia-ml.so.1"), str(LIBRARY)], check=True)
    program = folder / PROGRAM
    program.write_text(f"#!{sys.executable} -S\n{MPS_CONTROL.read_text()}")
    program.chmod(0o755)
    return folder


@pytest.fixture
def pod() -> Iterator[PodCgroup]:
    made = PodCgroup()
    yield made
    made.remove()


@pytest.fixture
def root() -> Iterator[Path]:
    """A node's root with a short name: the MPS daemon's sockets have short paths."""
    with tempfile.TemporaryDirectory(prefix="lw-") as folder:
        yield Path(folder)


@pytest.fixture
def make_node(root: Path, driver: Path) -> Iterator[Callable[..., Node]]:
    nodes = []

    def make(config: dict[str, Any]) -> Node:
        node = Node(root, gpuSource="nvml", health={"probeSeconds": 1}, **config)
        node.use_gpus(GPUS)
        node.environment = {"LD_LIBRARY_PATH": str(driver), "PATH": f"{driver}:{os.environ['PATH']}"}
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        node.end()


@pytest.fixture
def run_mps_daemon(driver: Path) -> Iterator[Callable[[Node], subprocess.Popen[bytes]]]:
    """Runs what the chart runs in the pod of the MPS control daemon."""
    started: list[subprocess.Popen[bytes]] = []

    def run(node: Node) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "laneway.node_agent.main", "mps-daemon", "--root", str(node.root)]
        started.append(subprocess.Popen(command, env={**os.environ, **node.environment}))
        return started[-1]

    yield run
    for process in started:
        process.terminate()  # in peace: then its child ends with it
        process.wait(60)


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
    eventually("it has ended", lambda: process.poll() is not None)
    assert process.returncode == -signal.SIGTERM
    assert (
        "its process holds 3.0 GiB of GPU memory as the driver reports" in node.session("greedy")["message"]
    )
    assert gpu(node)["enforcement"] == "Watchdog"


def test_limits_of_mps_and_its_daemon_outlive_the_agent(
    make_node: Callable[..., Node],
    run_mps_daemon: Callable[[Node], subprocess.Popen[bytes]],
    pod: PodCgroup,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = make_node({"enforcement": {"level": "MPS"}})
    monkeypatch.setenv("PATH", node.environment["PATH"])
    folders = MPSFolders(node.root / "run/laneway/mps")
    containers = [node.container("client", 50, pod_uid=pod.uid)]
    containers.append(node.container("bystander", 50, pod_uid=pod.uid.replace("-4", "-5")))
    start(node, compute_processes=0, compute_mode=pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
    eventually("there is no daemon yet", lambda: "does not answer" in gpu(node)["enforcement_reason"])
    run_mps_daemon(node)
    eventually("MPS is in force", lambda: gpu(node)["enforcement"] == "MPS")
    assert gpu(node)["enforcement_reason"] == ""
    read_back = [f"get_default_device_pinned_mem_limit {GPUS[0]}", "get_default_active_thread_percentage"]
    limits = MPSControl(folders).ask(*read_back)
    limit_bytes = gpu(node)["mps_limit_bytes"]
    assert limits == [f"{limit_bytes >> 20}M" if limit_bytes % GIB else f"{limit_bytes // GIB}G", "50.0"]
    daemon = int(folders.pid_file.read_text())

    # An upgrade: another agent process takes over the daemon that runs.
    process = pod.run([sys.executable, "-c", WORKS], containers[0])
    node.kill()
    assert MPSControl(folders).ask(*read_back) == limits
    commands = (folders.log / "control.log").read_text()
    start(node, compute_processes=1, mps_processes=1, first_pid=process.pid, mps_pid=process.pid)
    eventually("its process is a client", lambda: node.session("client")["enforcement"] == "MPS")
    assert node.session("bystander")["enforcement"] == "Watchdog", "it has no client there yet"
    assert int(folders.pid_file.read_text()) == daemon
    assert (folders.log / "control.log").read_text() == commands, "its limits were read, and not set again"
    assert f"starting for {','.join(GPUS)}" in commands

    became = f"enforcement level changed gpu={GPUS[0]} level="
    os.kill(daemon, signal.SIGUSR1)
    eventually(
        "it forgot them", lambda: f'{became}Watchdog reason="no MPS: the MPS control daemon lost' in node.log
    )
    eventually("they are back", lambda: node.log.count(f"{became}MPS") == 2)
    assert MPSControl(folders).ask(*read_back) == limits
    eventually(
        "the client may have connected without a limit",
        lambda: node.session("client")["enforcement"] == "Watchdog",
    )

    os.kill(daemon, signal.SIGKILL)
    eventually("another daemon has the limits", lambda: node.log.count(f"{became}MPS") == 3)
    assert int(folders.pid_file.read_text()) != daemon
    assert MPSControl(folders).ask(*read_back) == limits
    assert node.terminate() == 0
    assert MPSControl(folders).ask(*read_back) == limits


def test_a_container_with_a_smaller_share_than_another_is_not_at_level_mps(
    make_node: Callable[..., Node], run_mps_daemon: Callable[[Node], subprocess.Popen[bytes]], pod: PodCgroup
) -> None:
    node = make_node({"enforcement": {"level": "MPS"}})
    small = node.container("small", 20, pod_uid=pod.uid, minimum_enforcement="MPS")
    process = pod.run([sys.executable, "-c", WORKS], small)
    node.container("large", 80, pod_uid=pod.uid.replace("-4", "-5"))
    run_mps_daemon(node)
    start(
        node,
        compute_mode=pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS,
        compute_processes=1,
        mps_processes=1,
        first_pid=process.pid,
        mps_pid=process.pid,
    )
    eventually("MPS is in force", lambda: gpu(node)["enforcement"] == "MPS")
    eventually("its own level is published", lambda: node.session("small")["enforcement"] == "Watchdog")
    eventually(
        "it is told why",
        lambda: "MPS holds the largest shares of a GPU only" in node.session("small")["message"],
    )


@pytest.mark.parametrize(
    ("settings", "level", "says"),
    [
        ({"compute_processes": 1}, "Watchdog", "no MPS: the MPS control daemon does not answer"),
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
