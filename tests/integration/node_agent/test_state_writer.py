"""The state file while the agent ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from laneway.node_agent.clock import SystemClock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.recovery import state_writer
from laneway.node_agent.recovery.state_writer import StateWriter

from tests.support.node_agent.gpu_bench import GPU, GPUBench
from tests.support.node_agent.node import eventually


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    loop = EventLoop(SystemClock())
    thread = threading.Thread(target=loop.run)
    thread.start()
    yield loop
    loop.stop()
    thread.join()
    loop.close()


def test_the_last_write_waits_for_one_that_is_under_way(
    loop: EventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at a time would share a temporary file, and the older state could be the last."""
    began, overlapped = threading.Event(), threading.Event()
    write = state_writer.write_atomically
    writing = threading.Lock()

    def slow(path: Path, text: str, mode: int) -> None:
        if not writing.acquire(blocking=False):
            overlapped.set()
            return
        try:
            first = not began.is_set()
            began.set()
            if first:
                overlapped.wait(1.0)
            write(path, text, mode)
        finally:
            writing.release()

    monkeypatch.setattr(state_writer, "write_atomically", slow)
    bench = GPUBench()
    writer = StateWriter(tmp_path / "state.json", {GPU: bench.turns}, loop)
    writer.start()
    writer.changed()
    assert began.wait(30)
    bench.container("a")
    writer.close()
    assert not overlapped.is_set()
    (gpu,) = json.loads((tmp_path / "state.json").read_text())["gpus"]
    assert [lease["pod"] for lease in gpu["leases"]] == ["a"]


def test_a_state_that_cannot_be_told_is_written_later(
    loop: EventLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tell = state_writer.gpu_state
    monkeypatch.setattr(state_writer, "gpu_state", lambda turns: 1 / 0)
    writer = StateWriter(tmp_path / "state.json", {GPU: GPUBench().turns}, loop)
    writer.start()
    writer.changed()
    eventually("it has failed", lambda: "cannot write state file" in caplog.text)
    monkeypatch.setattr(state_writer, "gpu_state", tell)
    writer.changed()
    eventually("it is written", (tmp_path / "state.json").exists)
    writer.close()
