"""How the writer handles the API server's answers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from laneway.api.training_profile import TrainingProfileStatus
from laneway.operator.cycle.cpu_resizes import ResizeWrite
from laneway.operator.cycle.node_orders import NodeWrite
from laneway.operator.cycle.templates import ProfileWrite
from laneway.operator.execute.writer import FencedOff, Writer
from laneway.operator.metrics import Metrics
from laneway.operator.state.cache import ClusterCache
from laneway.operator.state.records.profile_record import ProfileRecord
from laneway.operator.watch.apiserver import ApiError, ApiServer, Raw

from tests.unit.operator.builders import a_gpu_node, a_job, a_pod


class _Answering:
    """An API server with one answer."""

    def __init__(self, answer: Raw) -> None:
        self._answer = answer

    async def request(self, method: str, path: str, **request: Any) -> Raw:
        return self._answer


@pytest.mark.parametrize(
    ("change", "there"),
    [
        ({"kind": "Pod"}, True),
        ({"kind": "Pod", "resourceVersion": None}, False),
        ({"kind": "Status"}, False),
    ],
)
async def test_a_deleted_pod_is_known_until_the_answer_says_that_it_is_gone(
    change: dict[str, str | None], there: bool
) -> None:
    """Two deletions at the same time: the answer to the later one is a pod without a version."""
    job = a_job().placed("n1").record
    raw = a_pod(job).running().raw
    cache = ClusterCache(lambda: 0.0)
    cache.pods.observe(raw)
    metadata = {**raw["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "2"}
    if "resourceVersion" in change:
        del metadata["resourceVersion"]
    answer = {**raw, "kind": change["kind"], "metadata": metadata}
    writer = Writer(cast(ApiServer, _Answering(answer)), cache, Metrics(), lambda: 10.0)
    await writer.delete_pod(a_pod(job).running().record)
    assert [pod.deleting for pod in cache.pods.records()] == ([True] if there else [])


class _Slow:
    """An API server that answers the first request never, and takes note of the others."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.written: list[str] = []

    async def request(self, method: str, path: str, *, body: Raw, **request: Any) -> Raw:
        if not self.asked.is_set():
            self.asked.set()
            await asyncio.Event().wait()
        self.written.append(body["metadata"]["name"])
        return body


async def test_the_last_events_are_written_including_one_whose_write_was_interrupted() -> None:
    api = _Slow()
    writer = Writer(cast(ApiServer, api), ClusterCache(lambda: 0.0), Metrics(), lambda: 10.0)
    for name in ("placed", "started"):
        writer.record({"metadata": {"name": name, "namespace": "ns"}})
    writing = asyncio.create_task(writer.write_events(lambda: 0))
    await api.asked.wait()
    writing.cancel()
    await asyncio.wait([writing])
    await writer.write_last_events(5)
    assert api.written == ["placed", "started"]


async def test_events_that_nobody_takes_hold_up_the_end_for_a_moment_only() -> None:
    api = _Slow()
    writer = Writer(cast(ApiServer, api), ClusterCache(lambda: 0.0), Metrics(), lambda: 10.0)
    writer.record({"metadata": {"name": "placed", "namespace": "ns"}})
    await writer.write_last_events(0.01)
    assert api.written == []


class _Untouched:
    """An API server that takes note of all that it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def request(self, method: str, path: str, **request: Any) -> Raw:
        if method == "GET":
            raise ApiError(404, "NotFound", path)
        self.asked.append(f"{method} {path}")
        return {}


_JOB = a_job().placed("n1").record
_POD = a_pod(_JOB).running().record
_OBJECT: Raw = {"metadata": {"name": "x", "namespace": "ns"}}

FENCED: dict[str, Callable[[Writer], Awaitable[object]]] = {
    "write_status": lambda writer: writer.write_status(_JOB, _JOB.status),
    "create_pod": lambda writer: writer.create_pod(_JOB, _OBJECT),
    "adopt_pod": lambda writer: writer.adopt_pod(_JOB, _POD),
    "resize_pod": lambda writer: writer.resize_pod(ResizeWrite(_JOB, _POD, "trainer", 2000, None)),
    "try_pod": lambda writer: writer.try_pod(_JOB, _OBJECT),
    "ensure_gang_service": lambda writer: writer.ensure_gang_service("ns"),
    "write_orders": lambda writer: writer.write_orders(NodeWrite(a_gpu_node("n1"), (), frozenset())),
    "delete_pod": lambda writer: writer.delete_pod(_POD),
    "write_profile": lambda writer: writer.write_profile(
        ProfileWrite("ns", "0123", None, TrainingProfileStatus())
    ),
    "delete_profile": lambda writer: writer.delete_profile(
        ProfileRecord("ns", "0123", "uid-profile", TrainingProfileStatus())
    ),
    "delete_job": lambda writer: writer.delete_job(_JOB),
}
NOT_FENCED = {"put_lease"}
"""By it a replica becomes the leader."""

READS = {"why_not_resized"}

EVENTS = {"write_events", "write_last_events"}


def test_all_that_writes_is_looked_at_here() -> None:
    methods = {name for name, each in vars(Writer).items() if inspect.iscoroutinefunction(each)}
    assert {
        name for name in methods if not name.startswith("_")
    } == FENCED.keys() | NOT_FENCED | READS | EVENTS


@pytest.mark.parametrize("name", FENCED)
@pytest.mark.parametrize("seconds_left", [0.0, -5.0])
async def test_a_replica_whose_lease_has_expired_writes_nothing(name: str, seconds_left: float) -> None:
    api = _Untouched()
    writer = Writer(cast(ApiServer, api), ClusterCache(lambda: 0.0), Metrics(), lambda: seconds_left)
    with pytest.raises(FencedOff):
        await FENCED[name](writer)
    assert api.asked == []


async def test_a_replica_whose_lease_has_expired_writes_no_events() -> None:
    api = _Untouched()
    writer = Writer(cast(ApiServer, api), ClusterCache(lambda: 0.0), Metrics(), lambda: 0.0)
    writer.record(_OBJECT)
    await writer.write_last_events(5)
    assert api.asked == []
