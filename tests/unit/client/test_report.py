"""What a script passes to `report`, and what the agent receives."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from laneway.client import report, runtime
from laneway.client.reporting import progress
from laneway.client.reporting.profile import Profiler
from laneway.client.reporting.progress import SEND_NS, Progress
from laneway.client.runtime import Client
from laneway.client.session.null_session import NullSession

from tests.unit.client.conftest import Background
from tests.unit.client.fake_agent import FakeAgent


class Agent:
    """Has the interface of a session; keeps the messages."""

    has_agent = True

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send_message(self, kind: str, **fields: Any) -> None:
        assert kind == "report"
        self.sent.append(fields)


class Script:
    """A training under a clock that only the test advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 10 * SEND_NS
        self.agent = Agent()
        self.profiler = Profiler()
        self.progress = Progress(self.profiler)
        self.iterations = 0
        monkeypatch.setattr(progress, "monotonic_ns", lambda: self.now_ns)

    def says(self, after_seconds: float = 0.0, **values: Any) -> None:
        self.now_ns += round(after_seconds * 1e9)
        self.progress.update(values, self.iterations, self.agent)  # type: ignore[arg-type]

    def boundary(self, after_seconds: float = 0.0) -> None:
        self.now_ns += round(after_seconds * 1e9)
        if self.progress.pending:
            self.progress.send(self.agent, self.now_ns)  # type: ignore[arg-type]

    @property
    def last(self) -> dict[str, Any]:
        return self.agent.sent[-1]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(monkeypatch)


class OnDevice:
    """A tensor that counts reads, each of which would wait for its device."""

    reads = 0

    def __init__(self, number: float) -> None:
        self.number = number
        self.device = self
        self.type = "cuda"
        self.grad_fn: object = "graph"

    def detach(self) -> OnDevice:
        copy = OnDevice(self.number)
        copy.grad_fn = None
        return copy

    def numel(self) -> int:
        return 1

    def clone(self) -> OnDevice:
        return self.detach()

    def item(self) -> float:
        OnDevice.reads += 1
        return self.number


def test_the_first_report_is_sent_at_once_and_later_ones_once_a_second(script: Script) -> None:
    for step in range(1, 1001):
        script.says(after_seconds=0.01, step=step, loss=1 / step)
    assert len(script.agent.sent) == 10
    assert script.agent.sent[0] == {"step": 1, "loss": "1", "remaining_seconds": None}


def test_the_last_report_is_sent_at_a_boundary_or_at_the_end(script: Script) -> None:
    script.says(step=1)
    script.says(step=2)
    script.boundary(after_seconds=0.5)
    assert script.last["step"] == 1
    script.boundary(after_seconds=0.6)
    assert script.last["step"] == 2
    script.says(step=3)
    script.progress.flush(script.agent)  # type: ignore[arg-type]
    assert script.last["step"] == 3
    assert not script.progress.pending


def test_a_device_is_read_only_when_a_packet_is_sent(script: Script) -> None:
    OnDevice.reads = 0
    for _ in range(1000):
        script.says(after_seconds=0.01, loss=OnDevice(0.5))
    assert OnDevice.reads == len(script.agent.sent) == 10
    script.says(loss=OnDevice(0.25))
    snapshot = script.progress._values["loss"]
    assert snapshot.grad_fn is None, "the graph that it comes from can go"


@pytest.mark.parametrize(
    ("loss", "shown"),
    [
        (0.123456789, "0.123457"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        (3, "3"),
        (1e-20, "1e-20"),
        (Decimal("2.5"), "2.5"),
        (OnDevice(7.0), "7"),
    ],
)
def test_every_number_is_a_loss(script: Script, loss: Any, shown: str) -> None:
    script.says(loss=loss)
    assert script.last["loss"] == shown


class Raises:
    """Raises on every access."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")


@pytest.mark.parametrize(
    ("values", "instead"),
    [
        ({"loss": "0.5"}, "write one number, such as loss, loss.mean() or loss.item()"),
        ({"loss": [0.5]}, "write one number"),
        ({"loss": True}, "write one number"),
        ({"loss": 1j}, "write one number"),
        ({"loss": Raises()}, "write one number"),
        ({"step": 1.5}, "write a whole number from 0 to 2^53, such as step=step"),
        ({"step": -1}, "such as step=step"),
        ({"steps": "100"}, "such as steps=steps"),
        ({"steps": 2**60}, "such as steps=steps"),
        ({"epoch": math.nan}, "such as epoch=epoch"),
    ],
)
def test_invalid_values_are_dropped_with_one_warning(
    script: Script, values: dict[str, Any], instead: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        script.says(after_seconds=1, **values)
    assert script.last == {"remaining_seconds": None, **dict.fromkeys(values)}
    (record,) = caplog.records
    assert instead in record.getMessage()


def test_counts_may_be_floats_and_tensors(script: Script) -> None:
    script.says(step=3.0, steps=OnDevice(10), epoch=1.7)
    assert (script.last["step"], script.last["steps"], script.last["epoch"]) == (3, 10, 1)


def test_omitted_values_keep_their_last_report(script: Script) -> None:
    script.says(steps=10, loss=0.5)
    script.says(after_seconds=1, step=2)
    assert (script.last["step"], script.last["steps"], script.last["loss"]) == (2, 10, "0.5")


def test_the_remaining_time_follows_the_pace_and_the_profile_gets_it_in_iterations(script: Script) -> None:
    for step in range(10, 15):
        script.iterations = 3 * step
        script.says(after_seconds=2, step=step, steps=100)
    assert script.agent.sent[0]["remaining_seconds"] is None, "one report is not enough for a pace"
    assert script.last["remaining_seconds"] == pytest.approx(86 * 2)
    assert script.profiler._ends_at == 3 * 100, "announced with the second report, and correct since then"
    script.says(after_seconds=2, step=100)
    assert script.last["remaining_seconds"] == 0


def test_a_script_that_restarts_its_count_starts_a_new_pace(script: Script) -> None:
    script.says(step=1, steps=100)
    script.says(after_seconds=1, step=51)
    script.says(after_seconds=1, step=0)
    assert script.last["remaining_seconds"] is None
    script.says(after_seconds=5, step=1)
    assert script.last["remaining_seconds"] == pytest.approx(99 * 5)


def test_steps_alone_count_as_iterations(script: Script) -> None:
    script.iterations = 40
    script.says(steps=100)
    assert script.profiler._ends_at == 100


def test_the_scripts_own_count_takes_precedence_over_a_checkpoints(script: Script) -> None:
    def counts(step: int) -> None:
        script.now_ns += SEND_NS
        script.progress.update_steps(step, 10, 0, script.agent)  # type: ignore[arg-type]

    counts(1)
    counts(2)
    assert (script.last["step"], script.last["steps"]) == (2, 10)
    script.says(after_seconds=1, step=200, steps=1000)
    counts(3)
    assert (script.last["step"], script.last["steps"]) == (200, 1000)


def test_without_an_agent_nothing_is_read_or_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    OnDevice.reads = 0
    without_agent = Progress(Profiler(), has_agent=False)
    without_agent.update({"loss": OnDevice(1.0), "step": "nonsense"}, 0, NullSession())
    assert (OnDevice.reads, without_agent.pending, without_agent._values) == (0, False, {})
    monkeypatch.setattr(runtime, "_client", Client(None))
    report(loss=0.5)
    report(0.5, 1, 2, 3)


def test_a_later_agent_receives_it_and_the_end_of_the_process_sends_it(
    make_client: Callable[[], Client], agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make_client()
    monkeypatch.setattr(runtime, "_client", client)
    report(step=1, steps=10)
    starting = Background(client.start)
    connection = agent.connection()
    connection.expect("request")
    connection.grant()
    starting.result()
    report_packet = connection.expect("report")
    assert (report_packet["step"], report_packet["steps"], report_packet.get("loss")) == (1, 10, None)
    report(loss=0.25, step=10)
    client.finish()
    report_packet = connection.expect("report")
    assert (report_packet["step"], report_packet["steps"], report_packet["loss"]) == (10, 10, "0.25")


def test_the_batch_alone_is_sent_again_to_a_new_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch)
    script.progress.batch.declare(2, 64, 1, 128, None, None)
    script.progress.note_batch()
    script.boundary()
    script.progress.resend()
    script.boundary(after_seconds=2)
    assert [sent["local_batch"] for sent in script.agent.sent] == [64, 64]
