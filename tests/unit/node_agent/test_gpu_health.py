"""GPUs that hang, fall off the bus, report errors and recover, as the monitor sees and reports them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from laneway.api.health_config import HealthConfig
from laneway.node_agent.gpus.deadline import DeadlineCaller
from laneway.node_agent.gpus.health_file import HealthFile, state_of
from laneway.node_agent.gpus.monitor import GPUMonitor
from laneway.node_agent.gpus.protocol import (
    GPUError,
    GPUErrors,
    GPUHangError,
    GPUInfo,
    GPULostError,
    GPUReading,
    XidEvent,
)
from laneway.node_agent.gpus.quarantine import ExitCondition, GPUState, Quarantine
from laneway.node_agent.gpus.xid_listener import XidListener

from tests.support.node_agent.gpu_bench import FakeClock

AT_ONCE = HealthConfig(clean_seconds=0, clean_probes=1)


class Source:
    """Two GPUs; tests break the first."""

    def __init__(self) -> None:
        self.error: GPUError | None = None
        self.errors = GPUErrors()
        self.hang = threading.Event()
        self.hang.set()
        self.events: queue.Queue[XidEvent] = queue.Queue()
        self.during_read: Callable[[], object] | None = None

    def discover(self) -> tuple[GPUInfo, ...]:
        return tuple(GPUInfo(f"GPU-{index}", index, "Test", 1 << 30) for index in range(2))

    def read(self, uuid: str) -> GPUReading:
        if uuid == "GPU-0":
            self.hang.wait(30)
            if self.during_read is not None:
                self.during_read()
            if self.error is not None:
                raise self.error
            return GPUReading(used_bytes=1, errors=self.errors)
        return GPUReading(used_bytes=1)

    def driver_version(self) -> str:
        return "570.86.15"

    def wait_for_xids(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        try:
            return (self.events.get(timeout=timeout_seconds),)
        except queue.Empty:
            return ()


class OneGPU(Source):
    """Only the second GPU."""

    def discover(self) -> tuple[GPUInfo, ...]:
        return super().discover()[1:]


class Escalation:
    """A monitor, and its reports."""

    def __init__(self, folder: Path, source: Source | None = None, config: HealthConfig = AT_ONCE) -> None:
        self.source = source or Source()
        self.changes: queue.Queue[tuple[bool, str]] = queue.Queue()
        self.file = HealthFile(folder)
        self.clock = FakeClock()
        self.monitor = GPUMonitor(
            self.source, self.source.discover(), self._changed, self.file, self.clock, config
        )

    def _changed(self) -> None:
        health = self.monitor.health(self.source.discover()[0].uuid)
        self.changes.put((health.healthy, health.reason))

    @property
    def healthy(self) -> bool:
        return self.monitor.health("GPU-0").healthy

    @property
    def reason(self) -> str:
        return self.monitor.health("GPU-0").reason

    def strike(self, *numbers: int) -> None:
        """Report XIDs of the first GPU to the monitor."""
        self.monitor._on_xids(tuple(XidEvent("GPU-0", number) for number in numbers))


def test_a_gpu_that_fails_is_unhealthy_and_returns_to_health(tmp_path: Path) -> None:
    watch = Escalation(tmp_path)
    watch.monitor.check()
    assert watch.changes.empty()
    watch.source.error = GPULostError("GPU is lost")
    watch.monitor.check()
    watch.monitor.check()
    assert not watch.healthy
    assert "GPU is lost" in watch.reason
    assert watch.monitor.health("GPU-0").reading is None
    assert watch.monitor.health("GPU-0").unhealthy_since_seconds == watch.clock.realtime()
    assert watch.monitor.health("GPU-1").healthy
    watch.source.error = None
    watch.monitor.check()
    assert watch.healthy
    assert watch.monitor.health("GPU-0").unhealthy_since_seconds is None
    assert [watch.changes.get_nowait()[0] for _ in range(2)] == [False, True]
    assert watch.changes.empty(), "others are told of changes alone"


def test_a_gpu_whose_driver_hangs_is_unhealthy_and_the_other_is_still_read(tmp_path: Path) -> None:
    config = HealthConfig(clean_seconds=0, clean_probes=1, answer_seconds=5)
    watch = Escalation(tmp_path, config=config)
    watch.source.hang.clear()
    watch.monitor.check()
    assert "no answer within 5 s" in watch.reason
    assert watch.monitor.health("GPU-1").reading == GPUReading(used_bytes=1)
    watch.monitor.check()
    assert "no answer within 5 s" in watch.reason
    watch.source.hang.set()
    while not watch.healthy:
        watch.monitor.check()


def test_an_xid_takes_effect_at_once(tmp_path: Path) -> None:
    watch = Escalation(tmp_path, config=HealthConfig(probe_seconds=300))
    watch.monitor.start()
    try:
        watch.source.events.put(XidEvent("GPU-0", 79))
        healthy, reason = watch.changes.get(timeout=60)
    finally:
        watch.monitor.stop()
    assert not healthy
    assert "XID 79 (GPU has fallen off the bus)" in reason
    assert watch.monitor.health("GPU-1").healthy


def test_an_xid_is_reported_while_a_call_for_its_gpu_hangs(tmp_path: Path) -> None:
    watch = Escalation(tmp_path, config=HealthConfig(answer_seconds=300))
    watch.source.hang.clear()
    watch.monitor.start()
    try:
        watch.source.events.put(XidEvent("GPU-0", 79))
        assert not watch.changes.get(timeout=60)[0]
    finally:
        watch.monitor.stop()
        watch.source.hang.set()


def test_a_check_that_began_before_an_xid_does_not_count(tmp_path: Path) -> None:
    watch = Escalation(tmp_path)
    watch.strike(94)
    watch.source.during_read = lambda: (
        watch.clock.advance(1),
        watch.monitor._on_xids((XidEvent("GPU-0", 94),)),
    )
    watch.monitor.check()
    assert not watch.healthy
    watch.source.during_read = None
    watch.monitor.check()
    assert watch.healthy


def test_xids_are_counted_whether_or_not_they_matter(tmp_path: Path) -> None:
    watch = Escalation(tmp_path)
    watch.strike(13, 13, 94)
    assert watch.monitor.health("GPU-0").xids == {13: 2, 94: 1}
    assert watch.monitor.health("GPU-1").xids == {}


def test_an_xid_of_an_unknown_gpu_changes_nothing(tmp_path: Path) -> None:
    watch = Escalation(tmp_path)
    watch.monitor._on_xids((XidEvent("GPU-9", 79),))
    watch.monitor.check()
    assert watch.changes.empty()


@pytest.mark.parametrize("number", [79, 94])
def test_an_agent_that_was_killed_remembers_which_gpus_are_unhealthy(tmp_path: Path, number: int) -> None:
    config = HealthConfig(clean_seconds=3600)
    before = Escalation(tmp_path, config=config)
    before.source.errors = GPUErrors(uncorrected=4)
    before.strike(number)
    again = Escalation(tmp_path, config=config)
    assert not again.healthy, "before it looks for the first time"
    assert again.monitor._states == before.monitor._states
    assert again.reason == before.reason
    for _ in range(5):
        again.monitor.check()
    assert not again.healthy


def test_an_agent_starts_again_while_a_gpu_does_not_answer(tmp_path: Path) -> None:
    watch = Escalation(tmp_path)
    watch.source.error = GPULostError("GPU is lost")
    watch.monitor.check()
    assert not watch.healthy
    assert not Escalation(tmp_path).healthy


@pytest.mark.parametrize("exit_condition", ExitCondition)
def test_every_quarantine_is_read_as_it_was_written(tmp_path: Path, exit_condition: ExitCondition) -> None:
    quarantine = Quarantine(
        {"no answer": "it does not answer"}, 1000.0, exit_condition, reset_requested=False
    )
    file = HealthFile(tmp_path)
    file.write("boot", {"GPU-1": GPUState(quarantine, 3)})
    record = file.read()
    assert record is not None
    assert state_of(record.gpus["GPU-1"]) == GPUState(quarantine, 3)


def test_an_absent_gpu_returns_as_unhealthy_as_before(tmp_path: Path) -> None:
    Escalation(tmp_path).strike(79)
    without = Escalation(tmp_path, OneGPU())
    without.monitor._on_xids((XidEvent("GPU-1", 94),))
    again = Escalation(tmp_path)
    assert "XID 79" in again.reason
    assert "XID 94" in again.monitor.health("GPU-1").reason


def test_after_a_reboot_a_clean_gpu_becomes_healthy(tmp_path: Path) -> None:
    before = Escalation(tmp_path)
    before.strike(79)
    text = before.file.path.read_text()
    before.file.path.write_text(text.replace(before.monitor._boot_id, "another boot"))
    again = Escalation(tmp_path)
    assert not again.healthy
    again.monitor.check()
    assert again.healthy
    assert before.monitor._boot_id in before.file.path.read_text()


def test_a_clear_request_takes_effect_once(tmp_path: Path) -> None:
    watch = Escalation(tmp_path)
    watch.strike(79)
    watch.file.request_clear("GPU-0")
    watch.monitor.check()
    assert watch.healthy
    watch.strike(79)
    watch.monitor.check()
    assert not watch.healthy


def test_a_clear_request_without_an_agent_takes_effect_at_the_next_start(tmp_path: Path) -> None:
    watch = Escalation(tmp_path)
    watch.strike(79)
    watch.file.request_clear("GPU-0")
    again = Escalation(tmp_path)
    again.monitor.check()
    assert again.healthy


def test_an_unreadable_health_file_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "health.json").write_text('{"version": 1, "boot_id": 5')
    watch = Escalation(tmp_path)
    assert watch.healthy
    assert f"{tmp_path}/health.json" in caplog.text
    watch.strike(79)
    assert "XID 79" in Escalation(tmp_path).reason


def test_a_pending_remap_is_a_warning_of_a_healthy_gpu(tmp_path: Path) -> None:
    watch = Escalation(tmp_path)
    watch.source.errors = GPUErrors(remap_pending=True)
    watch.monitor.check()
    assert watch.healthy
    assert watch.reason == "bad memory will be replaced at the next reset"
    assert watch.changes.get_nowait() == (True, watch.reason)


def test_an_error_of_the_call_is_raised_in_the_caller() -> None:
    caller: DeadlineCaller[int] = DeadlineCaller("test", 5)
    with pytest.raises(ZeroDivisionError):
        caller.call(lambda: 1 // 0)
    assert caller.call(lambda: 1) == 1


def test_a_hanging_call_costs_one_thread_however_often_it_is_retried() -> None:
    release = threading.Event()
    caller: DeadlineCaller[bool] = DeadlineCaller("hanging call", 0.02)
    for _ in range(5):
        with pytest.raises(GPUHangError):
            caller.call(lambda: release.wait(30))
    # By its name, because threads of earlier tests may come and go.
    assert [thread.name for thread in threading.enumerate()].count("hanging call") == 1
    release.set()


def test_a_report_that_fails_ends_no_listening(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laneway.node_agent.gpus.xid_listener._PAUSE_SECONDS", 0.0)
    heard: queue.Queue[int] = queue.Queue()
    source = Source()

    def fail(events: tuple[XidEvent, ...]) -> None:
        heard.put(events[0].number)
        raise RuntimeError("the report failed")

    listener = XidListener(source, fail)
    listener.start()
    for number in (79, 48):
        source.events.put(XidEvent("GPU-0", number))
        assert heard.get(timeout=60) == number
    listener.stop()
