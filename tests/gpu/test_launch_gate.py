"""Programs that launch kernels without iterations: they take turns through the interposer's launch gate, and who goes past it is
found and stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.support.gpu.driver import nvml, process_bytes, why_no_watchdog
from tests.support.gpu.workstation import Worker, Workstation
from tests.support.isolation.gated_program import Kernel, overlapping_kernels
from tests.support.node_agent.node import eventually, overlaps

Launching = Callable[..., Worker]

KERNEL = 300  # µs
MIB = 1 << 20


def ran(programs: list[Worker]) -> list[Kernel]:
    """The kernels of some programs, by their begin. A GPU's clock is the same for all processes."""
    kernels = [
        (worker.pid, begin, end) for worker in programs for begin, end in worker.do("kernels")["kernels"]
    ]
    return sorted(kernels, key=lambda kernel: kernel[1])


@pytest.mark.parametrize("what", ["kernels", "graphs"])
def test_programs_of_one_lane_never_run_kernels_at_once(
    workstation: Workstation, launching: Launching, what: str
) -> None:
    names = [f"{what}-{number}" for number in (1, 2)]
    programs = [launching(name, 30) for name in names]
    for program in programs:
        if what == "graphs":
            program.do("capture", microseconds=KERNEL)
    for program in programs:
        program.do("run", microseconds=KERNEL)
    for name in names:
        eventually(
            f"{name} had its turns", lambda name=name: workstation.node.session(name)["turns"] >= 6, 120
        )
    for program in programs:
        assert program.do("stop")["launched"] > 20
    turns = [turn for turn in workstation.node.get("/turns") if turn["pod"] in names]
    assert len({turn["lane"] for turn in turns}) == 1
    assert overlaps(turns) == []
    kernels = ran(programs)
    assert {kernel[0] for kernel in kernels} == {program.pid for program in programs}
    assert overlapping_kernels(kernels) == []


def test_a_program_that_computes_without_a_turn_is_found_by_its_utilization_and_stopped(
    workstation: Workstation, launching: Launching
) -> None:
    if why := why_no_watchdog(workstation):
        pytest.skip(f"no watchdog can be had on this machine: {why}")
    (gpu, *_) = nvml() if workstation.device == "cuda" else [{"process_utilization": {}}]
    if gpu["process_utilization"] is None:
        pytest.skip("this GPU or its driver does not sample the utilization of processes")
    honest, sly = launching("honest", 30), launching("past-the-gate", 30, interposed=False)
    honest.do("run", microseconds=KERNEL, gap_seconds=0.02)
    eventually("it has the turn", lambda: workstation.node.session("honest")["turns"] >= 1)
    sly.do("run", microseconds=KERNEL)
    assert sly.status(240) == 128 + signal.SIGTERM, workstation.node.log
    accused = [
        line for line in workstation.node.log.splitlines() if "its processes compute without a turn" in line
    ]
    assert accused
    assert all("past-the-gate" in line for line in accused)
    assert honest.do("stop")["launched"] > 20


@pytest.fixture
def impatient(device: str) -> Iterator[Workstation]:
    """A machine whose agent soon revokes a turn that is not released, and stops its holder."""
    with Workstation(
        device,
        lanes={"maxPerGpu": 1, "frameworkMebibytes": 800 if device == "cuda" else 0},
        turns={"quantumMilliseconds": 20, "timeoutSeconds": 2},
        watchdog={"graceSeconds": 1, "killSeconds": 2, "tolerancePercent": 5},
    ) as made:
        yield made


def test_a_lane_is_granted_only_after_the_memory_of_a_revoked_holder_is_gone(
    impatient: Workstation, launching: Launching
) -> None:
    if why := why_no_watchdog(impatient):
        pytest.skip(f"no watchdog can be had on this machine: {why}")
    keeps, waits = impatient.launching("keeps", 40), impatient.launching("waits", 40)
    keeps.do("hold", size_bytes=256 * MIB)
    keeps.do("run", microseconds=KERNEL)
    eventually("it has the turn", lambda: impatient.node.session("keeps")["state"] == "Holding")
    seen_bytes, unseen = process_bytes(impatient, keeps.pid)
    assert unseen or impatient.device == "cpu" or seen_bytes >= 256 * MIB
    assert waits.ready
    os.kill(keeps.pid, signal.SIGSTOP)
    waits.start("once", microseconds=KERNEL)
    assert waits.answer()["launched"] == 1
    assert process_bytes(impatient, keeps.pid)[0] == 0, "the driver shows memory of the holder"
    assert keeps.status() == 128 + signal.SIGKILL
    assert "TurnNotReleased" in impatient.node.log
