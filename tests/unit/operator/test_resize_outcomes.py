"""What the executor makes of the API server's answers to changes of pods' CPUs."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from laneway.operator.cycle.cpu_resizes import ResizeWrite
from laneway.operator.execute.executor import Executor
from laneway.operator.execute.writer import Writer
from laneway.operator.metrics import Metrics
from laneway.operator.pacing import RESIZE_RETRY_SECONDS, RESIZES_UNAVAILABLE_SECONDS
from laneway.operator.state.cache import ClusterCache
from laneway.operator.watch.apiserver import ApiError, ApiServer, Raw, UnknownOutcome

from tests.unit.operator.builders import NOW, a_job, a_pod

TRAINER = {"name": "trainer", "image": "i", "resources": {"requests": {"cpu": "2"}}}
JOB = a_job().spec(template={"spec": {"containers": [TRAINER]}}).placed("n1").running().record
POD = a_pod(JOB).running()
WRITE = ResizeWrite(JOB, POD.record, "trainer", 3000, 4000)


class _Api:
    """An API server that answers each write alike, and notes them."""

    def __init__(self, answer: Raw | Exception) -> None:
        self._answer = answer
        self.serves, self.permits = True, True
        self.sent: list[tuple[str, str, Raw]] = []

    async def request(self, method: str, path: str, *, body: Raw | None = None, **more: Any) -> Raw:
        if path == "/api/v1":
            return {"resources": [{"name": "pods"}, *([{"name": "pods/resize"}] if self.serves else [])]}
        assert body is not None
        if path.endswith("selfsubjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"]
            assert asked == {"namespace": "ns", "verb": "patch", "resource": "pods", "subresource": "resize"}
            return {"status": {"allowed": self.permits}}
        self.sent.append((method, path, body))
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


class _Case:
    """One change, and what is known after it."""

    def __init__(self, answer: Raw | Exception, seconds_left: float = 10.0) -> None:
        self.api, self.now, self.cache = _Api(answer), NOW, ClusterCache(lambda: NOW)
        self.write = WRITE
        metrics = Metrics()
        self.writer = Writer(cast(ApiServer, self.api), self.cache, metrics, lambda: seconds_left)
        self.ended: list[bool] = []
        self.executor = Executor(
            self.writer,
            metrics,
            cast(Any, SimpleNamespace(identity="a", leads=True)),
            4,
            unchanged=cast(Any, None),
            refresh_job=cast(Any, None),
            refresh_node=cast(Any, None),
            ended=self.ended.append,
            wall=lambda: self.now,
        )

    async def run(self) -> None:
        self.executor.begin_resize(self.write)
        assert self.executor.history().resizing == {WRITE.pod.uid: self.write.cpu_millis}
        await self.executor.end()
        assert self.ended == [True]

    @property
    def notes(self) -> list[str]:
        return [event["note"] for event in self.writer._events]


async def test_a_change_names_the_pod_and_only_the_cpus_and_its_answer_is_known_at_once() -> None:
    grown = POD.raw | {"metadata": POD.raw["metadata"] | {"resourceVersion": "7"}}
    case = _Case(grown)
    await case.run()
    ((method, path, body),) = case.api.sent
    assert (method, path) == ("PATCH", "/api/v1/namespaces/ns/pods/job-0/resize")
    assert body == {
        "metadata": {"uid": WRITE.pod.uid},
        "spec": {
            "containers": [
                {"name": "trainer", "resources": {"requests": {"cpu": "3000m"}, "limits": {"cpu": "4000m"}}}
            ]
        },
    }
    assert [pod.uid for pod in case.cache.pods.records()] == [WRITE.pod.uid]
    history = case.executor.history()
    assert (list(history.resizing), dict(history.resize_bounds), history.resizes_unavailable) == (
        [],
        {},
        "",
    )


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ApiError(404, "NotFound", "no such thing"), "Kubernetes 1.33"),
        (ApiError(405, "MethodNotAllowed", "no"), "Kubernetes 1.33"),
        (ApiError(403, "Forbidden", "no"), "permission to patch pods/resize"),
    ],
)
async def test_an_api_server_that_cannot_or_may_not_is_asked_again_after_an_hour(
    error: ApiError, words: str
) -> None:
    """Whatever words it uses."""
    case = _Case(error)
    case.api.serves = case.api.permits = False
    await case.run()
    assert words in case.executor.history().resizes_unavailable
    case.now += RESIZES_UNAVAILABLE_SECONDS
    assert case.executor.history().resizes_unavailable == ""
    assert case.notes == []


@pytest.mark.parametrize("status", [403, 422])
async def test_a_refusal_is_remembered_and_told_once(status: int) -> None:
    case = _Case(ApiError(status, "Invalid", "exceeded quota: no"))
    await case.run()
    assert case.executor.history().resize_bounds == {WRITE.pod.uid: (0, 2000)}
    (note,) = case.notes
    assert note == (
        "Worker 0 gets no more than 2 CPUs in this attempt: the API server refused a change: exceeded quota: no"
    )
    case.executor.forget()
    assert case.executor.history().resize_bounds == {}


async def test_a_worker_that_may_not_give_cpus_back_keeps_them() -> None:
    case = _Case(ApiError(422, "Invalid", "no"))
    case.write = replace(WRITE, cpu_millis=1000)
    await case.run()
    assert case.executor.history().resize_bounds == {WRITE.pod.uid: (2000, math.inf)}
    assert case.notes[0].startswith("Worker 0 keeps 2 CPUs in this attempt")


@pytest.mark.parametrize("error", [ApiError(500, "InternalError", "etcd"), UnknownOutcome("no answer")])
async def test_after_a_failure_the_pod_rests(error: Exception) -> None:
    case = _Case(error)
    await case.run()
    assert case.executor.history().resizing == {WRITE.pod.uid: 3000}, "it may have been made"
    case.now += RESIZE_RETRY_SECONDS
    assert not case.executor.history().resizing


@pytest.mark.parametrize(
    "error", [ApiError(404, "NotFound", 'pods "job-0" not found'), ApiError(409, "Conflict", "uid")]
)
async def test_a_pod_that_is_gone_needs_no_cpus(error: ApiError) -> None:
    case = _Case(error)
    await case.run()
    history = case.executor.history()
    assert (list(history.resizing), dict(history.resize_bounds), history.resizes_unavailable) == (
        [],
        {},
        "",
    )


async def test_a_replica_whose_lease_may_have_expired_changes_nothing() -> None:
    case = _Case({}, seconds_left=0.0)
    await case.run()
    assert case.api.sent == []
    assert case.executor.fenced_off
    assert not case.executor.history().resizing
