"""NVIDIA's MPS: the daemon serves, its limits are read back and hold whatever a client's environment says, and it
ends on request."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from laneway.node_agent.enforcement.mps_control import PROGRAM, MPSControl, MPSFolders
from laneway.node_agent.enforcement.mps_daemon import MPSDaemon

from tests.support.gpu.driver import nvml
from tests.support.gpu.workstation import Worker, Workstation
from tests.support.node_agent.node import eventually

GIB = 1 << 30


@pytest.fixture
def daemon(workstation: Workstation) -> Iterator[MPSDaemon]:
    if workstation.device != "cuda":
        pytest.skip(
            "a simulated GPU has no MPS; its keeper is tested in tests/integration/node_agent/test_mps_daemon.py"
        )
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"{PROGRAM} is not on the PATH of this machine")
    reported = threading.Event()
    made = MPSDaemon(MPSFolders(workstation.root / "mps"), [workstation.gpu["uuid"]], reported.set)
    made.start()
    try:
        assert reported.wait(60), "the keeper says nothing"
        if made.problem:
            pytest.skip(f"MPS does not start on this machine: {made.problem}")
        yield made
    finally:
        made.stop()


def test_a_client_is_refused_memory_beyond_its_limit(workstation: Workstation, daemon: MPSDaemon) -> None:
    control = MPSControl(MPSFolders(workstation.root / "mps"))
    pipe = {"CUDA_MPS_PIPE_DIRECTORY": str(workstation.root / "mps/clients")}
    limited = workstation.plain("limited", **pipe, CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="0=2G")
    free = workstation.plain("free", **pipe)
    try:
        free.do("train", iterations=3)
        free.do("hold", size_bytes=3 * GIB)
        limited.do("train", iterations=3)
        limited.start("hold", size_bytes=3 * GIB)
        assert limited.status() == 1
        assert "OutOfMemoryError" in limited.errors
        (server,) = control.ask("get_server_list")
        assert server.isdigit(), "one server serves"
        _is_seen_as_client(workstation, free)
        free.do("train", iterations=3)
    finally:
        limited.end()
        free.end()


@contextmanager
def _mps_daemon(workstation: Workstation) -> Iterator[None]:
    command = [sys.executable, "-m", "laneway.node_agent.main", "mps-daemon", "--root", str(workstation.root)]
    with subprocess.Popen(command) as process:
        try:
            yield
        finally:
            process.terminate()


def _is_seen_as_client(workstation: Workstation, worker: Worker) -> None:
    (gpu,) = [gpu for gpu in nvml() if gpu["uuid"] == workstation.gpu["uuid"]]
    if not gpu["processes_hidden"]:
        assert worker.pid in gpu["mps_pids"]


def test_the_daemons_limit_holds_a_client_without_variables(
    workstation: Workstation, daemon: MPSDaemon
) -> None:
    control, uuid = MPSControl(MPSFolders(workstation.root / "mps")), workstation.gpu["uuid"]
    control.ask(f"set_default_device_pinned_mem_limit {uuid} 2048M")
    assert control.ask(f"get_default_device_pinned_mem_limit {uuid}") in (["2G"], ["2048M"])
    pipe = {"CUDA_MPS_PIPE_DIRECTORY": str(workstation.root / "mps/clients")}
    limited = workstation.plain("limited", **pipe)
    try:
        limited.do("train", iterations=3)
        limited.start("hold", size_bytes=3 * GIB)
        assert limited.status() == 1
        assert "OutOfMemoryError" in limited.errors
    finally:
        limited.end()


def test_an_agent_configured_for_mps_reports_whether_mps_is_in_force(
    workstation: Workstation, daemon: MPSDaemon
) -> None:
    """In compute mode DEFAULT, processes can bypass the MPS server, so the agent must not claim that MPS limits them."""
    (gpu,) = [gpu for gpu in nvml() if gpu["uuid"] == workstation.gpu["uuid"]]
    daemon.stop()
    with Workstation("cuda", enforcement={"level": "MPS"}) as asked, _mps_daemon(asked):
        if gpu["exclusive_process"] and not gpu["processes_hidden"]:
            eventually("MPS is in force", lambda: asked.gpu["enforcement"] == "MPS", seconds=60)
        else:
            level = eventually(
                "it has looked and says why not",
                lambda: (
                    gpu["enforcement"]
                    if (gpu := asked.gpu)["enforcement_reason"]
                    and "has not been read" not in gpu["enforcement_reason"]
                    and "have not been set" not in gpu["enforcement_reason"]
                    and "does not answer" not in gpu["enforcement_reason"]
                    else ""
                ),
                seconds=60,
            )
            assert level in ("Cooperative", "Watchdog")
