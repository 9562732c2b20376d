"""What a script says with `report`, and what the agent hears of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from laneway.client import progress, report, runtime
from laneway.client.detached import Detached
from laneway.client.profile import Profiler
from laneway.client.progress import SEND_NS, Progress
from laneway.client.runtime import Client

from tests.unit.client.conftest import Background
from tests.unit.client.fake_agent import FakeAgent


class Agent:
    """Has the face of a session; keeps what it is told."""

    contested = True

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []

    def tell(self, kind: str, **fields: Any) -> None:
        assert kind == "report"
        self.heard.append(fields)


class Script:
    """A training under a clock that only the test turns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 10 * SEND_NS
        self.agent = Agent()
        self.profiler = Profiler()
        self.progress = Progress(self.profiler)
        self.iterations = 0
        monkeypatch.setattr(progress, "monotonic_ns", lambda: self.now_ns)

    def says(self, after_seconds: float = 0.0, **said: Any) -> None:
        self.now_ns += round(after_seconds * 1e9)
        self.progress.take(said, self.iterations, self.agent)  # type: ignore[arg-type]

    def boundary(self, after_seconds: float = 0.0) -> None:
        self.now_ns += round(after_seconds * 1e9)
        if self.progress.pending:
            self.progress.send(self.agent, self.now_ns)  # type: ignore[arg-type]

    @property
    def last(self) -> dict[str, Any]:
        return self.agent.heard[-1]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(monkeypatch)


class OnDevice:
    """A tensor that counts how often somebody waits for its device."""

    reads = 0

    def __init__(self, number: float) -> None:
        self.number = number
        self.device = self
        self.type = "cuda"
        self.grad_fn: object = "graph"

    def detach(self) -> OnDevice:
        kept = OnDevice(self.number)
        kept.grad_fn = None
        return kept

    def numel(self) -> int:
        return 1

    def clone(self) -> OnDevice:
        return self.detach()

    def item(self) -> float:
        OnDevice.reads += 1
        return self.number


def test_the_first_word_is_sent_at_once_and_the_next_ones_once_a_second(script: Script) -> None:
    for step in range(1, 1001):
        script.says(after_seconds=0.01, step=step, loss=1 / step)
    assert len(script.agent.heard) == 10
    assert script.agent.heard[0] == {"step": 1, "loss": "1", "remaining_seconds": None}


def test_the_last_word_goes_out_at_a_boundary_or_at_the_end(script: Script) -> None:
    script.says(step=1)
    script.says(step=2)
    script.boundary(after_seconds=0.5)
    assert script.last["step"] == 1
    script.boundary(after_seconds=0.6)
    assert script.last["step"] == 2
    script.says(step=3)
    script.progress.finish(script.agent)  # type: ignore[arg-type]
    assert script.last["step"] == 3
    assert not script.progress.pending


def test_a_device_is_waited_for_no_more_often_than_is_sent(script: Script) -> None:
    OnDevice.reads = 0
    for _ in range(1000):
        script.says(after_seconds=0.01, loss=OnDevice(0.5))
    assert OnDevice.reads == len(script.agent.heard) == 10
    script.says(loss=OnDevice(0.25))
    kept = script.progress._said["loss"]
    assert kept.grad_fn is None, "the graph that it comes from can go"


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
    """Whatever is asked of it, it raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")


@pytest.mark.parametrize(
    ("said", "instead"),
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
def test_what_makes_no_sense_is_left_out_with_one_warning(
    script: Script, said: dict[str, Any], instead: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        script.says(after_seconds=1, **said)
    assert script.last == {"remaining_seconds": None, **dict.fromkeys(said)}
    (record,) = caplog.records
    assert instead in record.getMessage()


def test_counts_may_be_floats_and_tensors(script: Script) -> None:
    script.says(step=3.0, steps=OnDevice(10), epoch=1.7)
    assert (script.last["step"], script.last["steps"], script.last["epoch"]) == (3, 10, 1)


def test_what_is_not_said_again_stays(script: Script) -> None:
    script.says(steps=10, loss=0.5)
    script.says(after_seconds=1, step=2)
    assert (script.last["step"], script.last["steps"], script.last["loss"]) == (2, 10, "0.5")


def test_what_is_left_goes_by_the_pace_and_the_profile_knows_it_in_iterations(script: Script) -> None:
    for step in range(10, 15):
        script.iterations = 3 * step
        script.says(after_seconds=2, step=step, steps=100)
    assert script.agent.heard[0]["remaining_seconds"] is None, "one word makes no pace"
    assert script.last["remaining_seconds"] == pytest.approx(86 * 2)
    assert script.profiler._ends_at == 3 * 100, "told at the second word, and right since then"
    script.says(after_seconds=2, step=100)
    assert script.last["remaining_seconds"] == 0


def test_a_script_that_counts_anew_begins_a_new_pace(script: Script) -> None:
    script.says(step=1, steps=100)
    script.says(after_seconds=1, step=51)
    script.says(after_seconds=1, step=0)
    assert script.last["remaining_seconds"] is None
    script.says(after_seconds=5, step=1)
    assert script.last["remaining_seconds"] == pytest.approx(99 * 5)


def test_steps_alone_are_taken_to_be_iterations(script: Script) -> None:
    script.iterations = 40
    script.says(steps=100)
    assert script.profiler._ends_at == 100


def test_the_scripts_own_count_comes_before_a_checkpoints(script: Script) -> None:
    def counts(step: int) -> None:
        script.now_ns += SEND_NS
        script.progress.count(step, 10, 0, script.agent)  # type: ignore[arg-type]

    counts(1)
    counts(2)
    assert (script.last["step"], script.last["steps"]) == (2, 10)
    script.says(after_seconds=1, step=200, steps=1000)
    counts(3)
    assert (script.last["step"], script.last["steps"]) == (200, 1000)


def test_without_an_agent_nothing_is_read_or_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    OnDevice.reads = 0
    nobody = Progress(Profiler(), heard=False)
    nobody.take({"loss": OnDevice(1.0), "step": "nonsense"}, 0, Detached())
    assert (OnDevice.reads, nobody.pending, nobody._said) == (0, False, {})
    monkeypatch.setattr(runtime, "_client", Client(None))
    report(loss=0.5)
    report(0.5, 1, 2, 3)


def test_an_agent_hears_it_that_comes_later_and_at_the_end_of_the_process(
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
    heard = connection.expect("report")
    assert (heard["step"], heard["steps"], heard.get("loss")) == (1, 10, None)
    report(loss=0.25, step=10)
    client.finish()
    heard = connection.expect("report")
    assert (heard["step"], heard["steps"], heard["loss"]) == (10, 10, "0.25")
