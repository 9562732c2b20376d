"""When the GPUNode is written, and what happens when that fails."""

from __future__ import annotations

import threading
import time
from typing import Any

from laneway.api.gpu_node import GPUNodeStatus
from laneway.node_agent.clock import SystemClock
from laneway.node_agent.report.gpu_node_writer import MissingError, WriteError
from laneway.node_agent.report.publisher import GPUNodePublisher


class Writer:
    """An API server in memory."""

    def __init__(self) -> None:
        self.objects = 0
        self.statuses: list[tuple[float, dict[str, Any]]] = []
        self.error: WriteError | None = None
        self.written = threading.Condition()

    def apply_object(self) -> None:
        self.objects += 1

    def apply_status(self, status: dict[str, Any]) -> None:
        with self.written:
            error, self.error = self.error, None
            if error is not None:
                raise error
            self.statuses.append((time.monotonic(), status))
            self.written.notify_all()

    def await_writes(self, count: int) -> None:
        with self.written:
            assert self.written.wait_for(lambda: len(self.statuses) >= count, timeout=10)


def publisher(writer: Writer, interval_seconds: float = 60) -> GPUNodePublisher:
    made = GPUNodePublisher(writer, GPUNodeStatus, SystemClock(), interval_seconds)
    made.MIN_INTERVAL_SECONDS = 0.1
    return made


def test_the_object_is_created_once_and_the_status_has_the_time() -> None:
    writer = Writer()
    made = publisher(writer)
    made.write()
    made.write()
    assert writer.objects == 1
    assert all("observedAt" in status for _, status in writer.statuses)


def test_a_deleted_object_is_created_again() -> None:
    writer = Writer()
    made = publisher(writer)
    made.write()
    writer.error = MissingError("gone")
    made.start()
    writer.await_writes(2)
    made.stop()
    assert writer.objects == 2


def test_many_changes_cost_one_write_per_minimum_interval() -> None:
    writer = Writer()
    made = publisher(writer)
    made.start()
    writer.await_writes(1)
    for _ in range(1000):
        made.changed()
    writer.await_writes(2)
    made.stop()
    (first, _), (second, _) = writer.statuses[:2]
    assert second - first >= 0.1
    assert len(writer.statuses) == 2


def test_without_a_change_it_is_written_at_intervals() -> None:
    writer = Writer()
    made = publisher(writer, interval_seconds=0.2)
    made.start()
    writer.await_writes(3)
    made.stop()
    times = [when for when, _ in writer.statuses]
    assert times[1] - times[0] >= 0.19


def test_a_failing_status_is_retried() -> None:
    writer = Writer()
    statuses = iter([TimeoutError("the loop does not answer"), GPUNodeStatus()])

    def status() -> GPUNodeStatus:
        result = next(statuses)
        if isinstance(result, Exception):
            raise result
        return result

    made = GPUNodePublisher(writer, status, SystemClock(), 60)
    made.start()
    writer.await_writes(1)
    made.stop()
