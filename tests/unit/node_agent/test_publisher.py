"""When the GPUNode is written and the Lease renewed, and what happens when that fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
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
            assert self.written.wait_for(lambda: len(self.statuses) >= count, timeout=60)


class Lease:
    """A Lease in memory."""

    def __init__(self) -> None:
        self.renewals = 0

    def renew(self) -> None:
        self.renewals += 1


class Bench:
    """A publisher without its thread, on a clock of the test's."""

    def __init__(self, interval_seconds: float = 15) -> None:
        self.now = 100.0
        self.gpu_count = 0
        self.writer, self.lease = Writer(), Lease()
        self.publisher = GPUNodePublisher(
            self.writer, self.lease, self._status, _Clock(self), interval_seconds
        )

    def _status(self) -> GPUNodeStatus:
        return GPUNodeStatus(gpu_count=self.gpu_count, other_pods_requests={"pods": str(self.gpu_count)})

    def publish_at(self, *seconds: float) -> tuple[int, int]:
        """Publish at these times; return the writes of the status and the renewals so far."""
        for now in seconds:
            self.now = 100.0 + now
            self.publisher.publish()
        return len(self.writer.statuses), self.lease.renewals


@dataclass
class _Clock:
    bench: Bench

    def monotonic(self) -> float:
        return self.bench.now

    realtime = monotonic


def publisher(writer: Writer, status: Callable[[], GPUNodeStatus] | None = None) -> GPUNodePublisher:
    counts = count()

    def changing() -> GPUNodeStatus:
        return GPUNodeStatus(other_pods_requests={"pods": str(next(counts))})

    made = GPUNodePublisher(writer, Lease(), status or changing, SystemClock(), 60)
    made.MIN_INTERVAL_SECONDS = 0.1
    return made


def test_the_object_is_created_once_and_the_status_has_the_time() -> None:
    bench = Bench()
    bench.publish_at(0)
    bench.gpu_count = 1
    assert bench.publish_at(1) == (2, 1)
    assert bench.writer.objects == 1
    assert all("observedAt" in status for _, status in bench.writer.statuses)


def test_an_unchanged_status_is_written_once_and_the_lease_is_renewed() -> None:
    assert Bench().publish_at(0, 10, 20, 30, 300, 3600) == (1, 6)


def test_a_change_is_written_without_a_renewal() -> None:
    bench = Bench()
    bench.publish_at(0)
    bench.gpu_count = 1
    assert bench.publish_at(1, 2, 3) == (2, 1)


def test_an_object_that_is_not_as_written_is_written_again() -> None:
    bench = Bench()
    bench.publish_at(0)
    written = bench.writer.statuses[0][1]["observedAt"]
    bench.publisher.seen(written)
    assert bench.publish_at(1)[0] == 1
    bench.publisher.seen("2020-01-01T00:00:00Z")  # restored from a backup
    assert bench.publish_at(2)[0] == 2
    bench.publisher.seen(None)
    assert bench.publish_at(3)[0] == 3
    assert bench.writer.objects == 3


def test_a_lease_is_not_renewed_while_the_status_cannot_be_written() -> None:
    bench = Bench()
    bench.writer.error = WriteError("refused")
    with pytest.raises(WriteError):
        bench.publish_at(0)
    assert bench.lease.renewals == 0
    assert bench.publish_at(1) == (1, 1)


def test_a_deleted_object_is_created_again() -> None:
    writer = Writer()
    made = publisher(writer)
    made.publish()
    writer.error = MissingError("gone")
    made.start()
    writer.await_writes(2)
    made.stop()
    assert writer.objects == 2


def test_many_changes_cost_one_write_per_minimum_interval() -> None:
    writer = Writer()
    made = publisher(writer)
    made.MIN_INTERVAL_SECONDS = 1.0  # all changes below fall into one, on a busy machine too
    made.start()
    writer.await_writes(1)
    for _ in range(1000):
        made.changed()
    writer.await_writes(2)
    made.stop()
    (first, _), (second, _) = writer.statuses[:2]
    assert second - first >= made.MIN_INTERVAL_SECONDS
    assert len(writer.statuses) == 2


def test_a_failing_status_is_retried() -> None:
    writer = Writer()
    statuses = iter([TimeoutError("the loop does not answer"), GPUNodeStatus()])

    def status() -> GPUNodeStatus:
        result = next(statuses)
        if isinstance(result, Exception):
            raise result
        return result

    made = publisher(writer, status)
    made.start()
    writer.await_writes(1)
    made.stop()
