"""Simulated GPUs behave like real ones, and fail as the faults file says."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from laneway.api.config_file import ConfigError, parse_config
from laneway.api.simulated_gpus import SimulatedFaults, SimulatedGPUs
from laneway.node_agent.gpus.deadline import DeadlineCaller
from laneway.node_agent.gpus.protocol import (
    GPUError,
    GPUErrors,
    GPUHangError,
    GPULostError,
    GPUReading,
    Recovery,
    XidEvent,
)
from laneway.node_agent.gpus.simulated import GPUUse, SessionUse, SimulatedGPUSource
from laneway.node_agent.gpus.simulated_faults import FaultsFile
from laneway.node_agent.gpus.simulated_kernels import SimulatedKernels
from laneway.node_agent.gpus.simulated_memory import PageUse, write_available_memory

from tests.support.node_agent.gpu_bench import FakeClock, FakePage

MIB = 1 << 20


class Node:
    """A node's simulated GPUs and their file of faults."""

    def __init__(self, folder: Path, name: str = "n1") -> None:
        self.path = folder / "simulated-faults.yaml"
        self.clock = FakeClock()
        profile = SimulatedGPUs.model_validate({"gpus": [{"memory": "1Gi", "count": 2}], "nvlinks": [[0, 1]]})
        self.source = SimulatedGPUSource(
            profile, name, self.clock, FaultsFile(self.path), SimulatedKernels(self.path.with_name("kernels"))
        )
        self.first, self.second = (gpu.uuid for gpu in self.source.discover())

    def say(self, text: str) -> None:
        """Replace the file."""
        temporary = self.path.with_name("new")
        temporary.write_text(text)
        os.replace(temporary, self.path)

    def read(self) -> GPUReading:
        return self.source.read(self.first)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_uuids_are_stable_over_restarts_and_differ_between_nodes(tmp_path: Path) -> None:
    first, again, other = Node(tmp_path), Node(tmp_path), Node(tmp_path, "n2")
    uuids = {first.first, first.second}
    assert uuids == {again.first, again.second}
    assert not uuids & {other.first, other.second}
    assert all(uuid.startswith("GPU-") and len(f"{uuid}::999") <= 63 for uuid in uuids)


def test_memory_and_utilization_come_from_sessions(node: Node) -> None:
    assert node.read().used_bytes == 0
    node.source.use_of = lambda gpu: GPUUse(4.0, (SessionUse(7, 100), SessionUse(7, 20), SessionUse(8, 3)))
    node.clock.advance(8)
    reading = node.read()
    assert reading.process_bytes == {7: 120, 8: 3}
    assert reading.used_bytes == 123
    assert reading.utilization_ratio == pytest.approx(0.5)
    node.clock.advance(100)
    assert node.read().utilization_ratio == pytest.approx(0, abs=0.01)


def test_an_unknown_gpu_is_named_in_the_error(node: Node) -> None:
    with pytest.raises(GPUError, match="there is no simulated GPU GPU-x"):
        node.source.read("GPU-x")


def test_without_a_file_there_are_no_faults(node: Node) -> None:
    assert node.read().errors == GPUErrors(0, False, False, Recovery.NONE)
    assert node.source.wait_for_xids(0) == ()


def test_a_gpu_falls_off_the_bus_and_returns(node: Node) -> None:
    node.say("gpus: [{gpu: 0, lost: true}]")
    with pytest.raises(GPULostError, match=f"{node.first} fell off the bus"):
        node.read()
    assert node.source.read(node.second).used_bytes == 0
    node.path.unlink()
    assert node.read().used_bytes == 0


def test_a_call_that_hangs_blocks_its_thread_until_the_fault_is_gone(node: Node) -> None:
    node.say("gpus: [{gpu: 0, hangs: true}]")
    caller: DeadlineCaller[GPUReading] = DeadlineCaller("test", 0.05)
    with pytest.raises(GPUHangError):
        caller.call(node.read)
    returned = threading.Event()
    blocked = threading.Thread(target=lambda: (node.read(), returned.set()))
    blocked.start()
    assert not returned.is_set()
    node.say("")
    blocked.join(20)
    assert returned.is_set()


def test_an_xid_is_raised_once_for_each_time_that_it_appears(node: Node) -> None:
    node.say("gpus: [{gpu: 1, xids: [79]}]")
    assert node.source.wait_for_xids(0) == (XidEvent(node.second, 79),)
    node.say("gpus: [{gpu: 1, xids: [79], lost: true}]")
    assert node.source.wait_for_xids(0) == ()
    node.say("gpus: [{gpu: 1, xids: [79, 79]}, {gpu: 0, xids: [13]}]")
    assert set(node.source.wait_for_xids(0)) == {XidEvent(node.second, 79), XidEvent(node.first, 13)}
    node.say("")
    assert node.source.wait_for_xids(0) == ()
    node.say("gpus: [{gpu: 0, xids: [13]}]")
    assert node.source.wait_for_xids(0) == (XidEvent(node.first, 13),)


def test_a_waiting_caller_gets_an_xid_when_it_appears(node: Node) -> None:
    heard: list[tuple[XidEvent, ...]] = []
    waiting = threading.Thread(target=lambda: heard.append(node.source.wait_for_xids(30)))
    waiting.start()
    node.say("gpus: [{gpu: 0, xids: [48]}]")
    waiting.join(20)
    assert heard == [(XidEvent(node.first, 48),)]


def test_an_xid_from_before_the_start_is_missed(tmp_path: Path) -> None:
    (tmp_path / "simulated-faults.yaml").write_text("gpus: [{gpu: 0, xids: [79], uncorrectedErrors: 2}]")
    node = Node(tmp_path)
    assert node.source.wait_for_xids(0) == ()
    assert node.read().errors.uncorrected == 2


def test_a_gpu_tells_of_its_errors(node: Node) -> None:
    node.say("gpus: [{gpu: 0, uncorrectedErrors: 3, remapFailed: true, remapPending: true, recovery: reset}]")
    assert node.read().errors == GPUErrors(3, True, True, Recovery.RESET)


def test_the_driver_may_report_other_memory_than_the_sessions(node: Node) -> None:
    node.source.use_of = lambda gpu: GPUUse(
        0, (SessionUse(7, 100, "ns/a"), SessionUse(8, 5, "ns/a"), SessionUse(9, 1, "ns/b"))
    )
    node.say("gpus: [{gpu: 0, pods: {ns/a: 2Mi, ns/gone: 1Gi}, processes: {9: 3Mi, 44: 1Ki}}]")
    reading = node.read()
    assert reading.process_bytes == {7: 100 + 2 * MIB, 8: 5, 9: 3 * MIB, 44: 1024}
    assert reading.used_bytes == sum(reading.process_bytes.values())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpus: [{gpu: 0, lots: true}]", "gpus.0.lots: Extra inputs are not permitted"),
        ("gpus: [{lost: true}]", "gpus.0.gpu: Field required"),
        ("gpus: [{gpu: 0, recovery: soon}]", "gpus.0.recovery: Input should be 'none', 'drain', 'reset' or"),
        ("gpus: [{gpu: 0, processes: {7: much}}]", "gpus.0.processes.7"),
        ("gpus: [{gpu: 0, pods: {a: 1Gi}}]", "'a' is no pod: write NAMESPACE/NAME"),
        ("gpus: [{gpu: 0}, {gpu: 0}]", "GPU 0 is there more than once"),
        ("{", "this is not YAML"),
    ],
)
def test_an_invalid_file_is_refused_with_the_field(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, SimulatedFaults, "simulated-faults.yaml")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "spoil", [lambda path: path.write_text("gpus: 5"), lambda path: path.write_bytes(b"\xff")]
)
def test_an_invalid_file_is_logged_once_and_changes_nothing(
    node: Node, spoil: Callable[[Path], int], caplog: pytest.LogCaptureFixture
) -> None:
    node.say("gpus: [{gpu: 0, lost: true}]")
    with pytest.raises(GPULostError):
        node.read()
    spoil(node.path)
    for _ in range(3):
        with pytest.raises(GPULostError):
            node.read()
    assert caplog.text.count("simulated faults ignored") == 1
    node.say("")
    assert node.read().used_bytes == 0


def test_memory_of_others_is_not_available_to_a_process() -> None:
    clock = FakeClock()
    idle = FakePage(clock, held_bytes=300, peak_bytes=500)
    computes = FakePage(clock, held_bytes=100, peak_bytes=250, inside=True)
    write_available_memory(
        [PageUse(idle, "a", 0), PageUse(computes, "b", 1)], memory_bytes=1000, external_bytes=50
    )
    assert idle.available_bytes == 1000 - 250 - 50, "the other is inside an iteration, so its highest counts"
    assert computes.available_bytes == 1000 - 300 - 50


def test_activations_of_a_lane_are_free_for_its_next_holder_before_the_hand_off() -> None:
    clock = FakeClock()
    holder = FakePage(clock, held_bytes=100, peak_bytes=300, inside=True)
    helper = FakePage(clock, held_bytes=10, peak_bytes=60, inside=True)
    next_holder = FakePage(clock, held_bytes=100)
    uses = [PageUse(holder, "a", 0), PageUse(helper, "a", 0), PageUse(next_holder, "b", 0)]
    write_available_memory(uses, memory_bytes=500, external_bytes=0)
    assert next_holder.available_bytes == 500 - 100 - 10
    assert holder.available_bytes == 500 - 60 - 100, "processes of one container may compute at once"


def test_a_full_gpu_has_one_byte_available() -> None:
    pages = [FakePage(FakeClock(), held_bytes=held) for held in (900, 400)]
    uses = [PageUse(page, name, None) for page, name in zip(pages, "ab", strict=True)]
    write_available_memory(uses, memory_bytes=1000, external_bytes=0)
    assert [page.available_bytes for page in pages] == [600, 100]
    write_available_memory(uses, memory_bytes=1000, external_bytes=1000)
    assert [page.available_bytes for page in pages] == [1, 1], "0 would mean unknown"


def test_memory_beyond_the_sessions_is_known_after_a_reading(node: Node) -> None:
    node.source.use_of = lambda gpu: GPUUse(0, (SessionUse(7, 100, "ns/a"),))
    assert node.source.external_bytes(node.first) == 0
    node.say("gpus: [{gpu: 0, pods: {ns/a: 2Mi}, processes: {44: 1Ki}}]")
    node.read()
    assert node.source.external_bytes(node.first) == 2 * MIB + 1024


def test_processes_report_the_time_of_their_kernels(node: Node) -> None:
    assert node.read().process_utilization is None, "like a driver that does not sample processes"
    folder = node.path.with_name("kernels") / "0"
    folder.mkdir(parents=True)
    (folder / "17").write_bytes((10**9).to_bytes(8, "little"))
    assert node.read().process_utilization == {}, "it is not known when it computed what it did before"
    node.clock.advance(2)
    (folder / "17").write_bytes((2 * 10**9).to_bytes(8, "little"))
    (folder / "18").write_bytes((9 * 10**9).to_bytes(8, "little"))
    reading = node.read()
    assert reading.process_utilization == pytest.approx({17: 0.5, 18: 1.0})
    assert reading.process_bytes == {17: 0, 18: 0}, "a process that computes is listed"
    node.clock.advance(2)
    assert node.read().process_utilization == {}
