"""The default level on a node with a driver: the agent offers the interposer once its self-test has passed there, with the shipped library."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from laneway.node_agent.memory_accounts.packets import uuid_bytes
from laneway.node_agent.self_test.results_file import RESULTS_NAME

from tests.support.isolation.building import fake_driver, shipped_interposer
from tests.support.isolation.fake_devices import FakeDevice, make_device
from tests.support.node_agent.node import Node, eventually

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or os.readlink("/proc/self/ns/pid") != "pid:[4026531836]",
    reason="no watchdog is claimed without root and the host's PID namespace, and no level above it",
)

GPU = "GPU-11111111-0000-0000-0000-000000000000"
NVML = Path(__file__).parents[2] / "support/node_agent/fake_nvml.c"
IN_AGENTS_POD = (
    'mount -t tmpfs tmpfs /run && mkdir /run/laneway && mount --bind "$1" /run/laneway && shift && exec "$@"'
)
FIRST_VERSION = "570.86.15"


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with NVML, of another driver than the one of the tests of isolation."""
    folder = tmp_path_factory.mktemp("nvml")
    library = str(folder / "libnvidia-ml.so.1")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", library, str(NVML)], check=True
    )
    return folder


@pytest.fixture
def root() -> Iterator[Path]:
    """A node's root with a short name: a socket's path is at most 107 bytes long."""
    with tempfile.TemporaryDirectory(prefix="lw-") as folder:
        yield Path(folder)


@pytest.fixture
def device(root: Path) -> FakeDevice:
    """The first GPU of NVML, as the CUDA driver has it."""
    (root / "devices").mkdir()
    return make_device(root / "devices", 0, 80 << 30, uuid_bytes(GPU) or b"")


@pytest.fixture
def make_node(root: Path, nvml: Path, device: FakeDevice) -> Iterator[Callable[..., Node]]:
    """Makes the node, whose agent sees its /run/laneway as in its pod."""
    nodes: list[Node] = []

    def make(**environment: str) -> Node:
        node = Node(root, gpuSource="nvml", health={"probeSeconds": 1})
        node.use_gpus([GPU])
        node.environment = {
            "LD_LIBRARY_PATH": f"{nvml}:{fake_driver()}",
            "FAKE_CUDA_DEVICES": str(device.file.parent),
            "FAKE_NVML_COMPUTE_PROCESSES": "0",
            **environment,
        }
        run = root / "run/laneway"
        run.mkdir(parents=True, exist_ok=True)
        node.starter = [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            IN_AGENTS_POD,
            "sh",
            str(run),
        ]
        client = root / "var/lib/laneway/client"
        client.mkdir(parents=True, exist_ok=True)
        shutil.copy(shipped_interposer(), client)
        (client / "ld.so.preload").touch()
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        node.end()


def gpu(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((node.root / "run/laneway/inventory.json").read_text())["gpus"][0]
    return found


def await_level(node: Node, level: str, reason: str) -> None:
    """Wait for a level of the GPU."""
    eventually(
        f"{level}: {reason}",
        lambda: (gpu(node)["enforcement"], gpu(node)["enforcement_reason"]) == (level, reason),
    )
    assert gpu(node)["interposer"] is (level == "Interposer")


def results(node: Node) -> list[tuple[str, bool | None]]:
    """The saved results, by the driver's version."""
    content = json.loads((node.root / "var/lib/laneway/agent" / RESULTS_NAME).read_text())
    return [(result["of"]["driver"], result["passed"]) for result in content["results"]]


def programs(root: Path) -> list[str]:
    """The pids of the self-test's programs on a node."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            mine = f"FAKE_CUDA_DEVICES={root}/".encode() in (process / "environ").read_bytes()
            if mine and b"cuda_program.py" in (process / "cmdline").read_bytes():
                found.append(process.name)
    return found


def lost(version: str) -> str:
    return f"no interposer: its self-test on driver {version} failed: with the library, it was ended by SIGSEGV in cuMemAlloc_v2"


def test_the_interposer_is_offered_once_its_self_test_has_passed_and_after_a_restart_without_another(
    make_node: Callable[..., Node], device: FakeDevice
) -> None:
    node = make_node().start()
    await_level(node, "Interposer", "")
    assert results(node) == [(FIRST_VERSION, True)]
    assert device.held() == {}, "its program has ended"
    assert not (node.root / "run/laneway/account.sock").exists()

    node.kill()
    again = make_node(FAKE_CUDA_UNDER_PRELOAD="crash").start()
    await_level(again, "Interposer", "")
    assert "level=Watchdog" not in again.log, "the saved result counts from the start"


def test_a_driver_on_which_it_crashes_is_published_and_tested_again_after_an_upgrade(
    make_node: Callable[..., Node],
) -> None:
    node = make_node(FAKE_CUDA_UNDER_PRELOAD="crash").start()
    await_level(node, "Watchdog", lost(FIRST_VERSION))
    node.kill()
    restarted = make_node().start()
    await_level(restarted, "Watchdog", lost(FIRST_VERSION))
    restarted.kill()
    upgraded = make_node(FAKE_NVML_DRIVER_VERSION="580.65.06").start()
    await_level(upgraded, "Interposer", "")
    assert results(upgraded) == [(FIRST_VERSION, False), ("580.65.06", True)]


def test_without_the_drivers_library_there_is_no_result_and_it_tries_again(
    make_node: Callable[..., Node], nvml: Path
) -> None:
    node = make_node()
    late = node.root / "driver"
    late.mkdir()
    node.environment["LD_LIBRARY_PATH"] = f"{nvml}:{late}"
    node.start()
    reason = f"no interposer: its self-test on driver {FIRST_VERSION} has no result yet: it cannot run without the library either: "
    eventually("it says so", lambda: gpu(node)["enforcement_reason"].startswith(f"{reason}libcuda.so.1"))
    assert gpu(node)["enforcement"] == "Watchdog"
    assert results(node) == []
    (late / "libcuda.so.1").symlink_to(fake_driver() / "libcuda.so.1")
    await_level(node, "Interposer", "")


def test_no_program_runs_on_a_gpu_that_only_one_process_may_use(make_node: Callable[..., Node]) -> None:
    node = make_node(FAKE_NVML_COMPUTE_MODE="3").start()
    unknown = (
        f"no interposer: its self-test on driver {FIRST_VERSION} has no result yet: no GPU to run it on: "
    )
    mode = "is in the compute mode EXCLUSIVE_PROCESS"
    await_level(node, "Watchdog", f"{unknown}GPU 0 {mode}, GPU 1 {mode}")
    assert not (node.root / "var/lib/laneway/agent" / RESULTS_NAME).exists()


def test_an_agent_that_ends_in_the_middle_twice_does_not_try_again(
    make_node: Callable[..., Node], root: Path
) -> None:
    for _ in range(2):
        node = make_node(FAKE_CUDA_UNDER_PRELOAD="hang").start()
        eventually("its program has an account", (node.root / "run/laneway/account.sock").exists)
        eventually("its program runs", lambda: programs(root))
        node.kill()
        eventually("its program has ended with the agent", lambda: not programs(root))
        (node.root / "run/laneway/account.sock").unlink()
    again = make_node().start()
    await_level(
        again,
        "Watchdog",
        f"no interposer: its self-test on driver {FIRST_VERSION} has no result yet: the agent ended 2 times in the middle of it",
    )
