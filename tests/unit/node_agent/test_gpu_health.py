"""GPUs that hang, fall off the bus and come back."""

from __future__ import annotations

import threading

import pytest
from laneway.api.simulated_gpus import SimulatedGPUs
from laneway.node_agent.gpus.deadline import DeadlineCaller
from laneway.node_agent.gpus.monitor import GPUMonitor
from laneway.node_agent.gpus.protocol import GPUError, GPUFacts, GPUHangError, GPULostError, GPUReading
from laneway.node_agent.gpus.simulated import GPUUse, SessionUse, SimulatedGPUSource

from tests.unit.node_agent.gpu_bench import FakeClock


class Source:
    """Two GPUs, of which tests break the first."""

    def __init__(self) -> None:
        self.error: GPUError | None = None
        self.hang = threading.Event()
        self.hang.set()

    def discover(self) -> tuple[GPUFacts, ...]:
        return tuple(GPUFacts(f"GPU-{index}", index, "Test", 1 << 30) for index in range(2))

    def read(self, uuid: str) -> GPUReading:
        if uuid == "GPU-0":
            self.hang.wait(30)
            if self.error is not None:
                raise self.error
        return GPUReading(used_bytes=1)


def monitor(source: Source, deadline_seconds: float = 5.0) -> tuple[GPUMonitor, list[int]]:
    changes: list[int] = []
    watched = GPUMonitor(
        source, source.discover(), lambda: changes.append(1), deadline_seconds=deadline_seconds
    )
    return watched, changes


def test_a_gpu_that_fails_is_unhealthy_and_returns_to_health() -> None:
    source = Source()
    watched, changes = monitor(source)
    watched.look()
    assert changes == []
    source.error = GPULostError("GPU is lost")
    watched.look()
    watched.look()
    assert (watched.health("GPU-0").healthy, watched.health("GPU-0").reason) == (False, "GPU is lost")
    assert watched.health("GPU-0").reading is None
    assert watched.health("GPU-1").healthy
    assert changes == [1]
    source.error = None
    watched.look()
    assert watched.health("GPU-0").healthy
    assert changes == [1, 1]


def test_a_gpu_whose_driver_hangs_is_unhealthy_and_the_other_is_still_read() -> None:
    source = Source()
    watched, _ = monitor(source, deadline_seconds=0.05)
    source.hang.clear()
    watched.look()
    assert "no answer within 0.05 s" in watched.health("GPU-0").reason
    assert watched.health("GPU-1").reading == GPUReading(used_bytes=1)
    watched.look()
    assert "an earlier call has not been answered yet" in watched.health("GPU-0").reason
    source.hang.set()
    while not watched.health("GPU-0").healthy:
        watched.look()


def test_a_call_that_raises_raises_where_it_was_made() -> None:
    caller: DeadlineCaller[int] = DeadlineCaller("test", 5)
    with pytest.raises(ZeroDivisionError):
        caller.call(lambda: 1 // 0)
    assert caller.call(lambda: 1) == 1


def test_a_call_that_hangs_costs_one_thread_however_often_it_is_tried() -> None:
    release = threading.Event()
    caller: DeadlineCaller[bool] = DeadlineCaller("test", 0.02)
    before = threading.active_count()
    for _ in range(5):
        with pytest.raises(GPUHangError):
            caller.call(lambda: release.wait(30))
    assert threading.active_count() == before + 1
    release.set()


def simulated(node: str = "n1") -> tuple[SimulatedGPUSource, FakeClock]:
    clock = FakeClock()
    profile = SimulatedGPUs.model_validate({"gpus": [{"memory": "1Gi", "count": 2}], "nvlinks": [[0, 1]]})
    return SimulatedGPUSource(profile, node, clock), clock


def test_simulated_gpus_have_the_same_uuids_after_a_restart_and_others_on_another_node() -> None:
    uuids = [gpu.uuid for gpu in simulated()[0].discover()]
    assert uuids == [gpu.uuid for gpu in simulated()[0].discover()]
    assert not set(uuids) & {gpu.uuid for gpu in simulated("n2")[0].discover()}
    assert all(uuid.startswith("GPU-") and len(f"{uuid}::999") <= 63 for uuid in uuids)


def test_simulated_memory_and_utilization_are_what_sessions_use() -> None:
    source, clock = simulated()
    uuid = source.discover()[0].uuid
    assert source.read(uuid).used_bytes == 0
    source.use_of = lambda gpu: GPUUse(4.0, (SessionUse(7, 100), SessionUse(7, 20), SessionUse(8, 3)))
    clock.advance(8)
    reading = source.read(uuid)
    assert reading.process_bytes == {7: 120, 8: 3}
    assert reading.used_bytes == 123
    assert reading.utilization_ratio == pytest.approx(0.5)
    clock.advance(100)
    assert source.read(uuid).utilization_ratio == pytest.approx(0, abs=0.01)


def test_a_simulated_gpu_that_is_not_there_is_named() -> None:
    source, _ = simulated()
    source.discover()
    with pytest.raises(GPUError, match="there is no simulated GPU GPU-x"):
        source.read("GPU-x")
