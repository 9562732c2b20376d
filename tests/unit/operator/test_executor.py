"""When a job is looked at again after something was written about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from laneway.api.training_profile import TrainingProfileStatus
from laneway.operator.cycle.templates import ProfileWrite
from laneway.operator.execute.executor import Executor
from laneway.operator.execute.writer import Writer
from laneway.operator.lifecycle import transitions
from laneway.operator.metrics import Metrics
from laneway.operator.pacing import PROFILE_RETRY_SECONDS
from laneway.operator.state.cache import ClusterCache
from laneway.operator.watch.apiserver import ApiError, ApiServer, Raw

from tests.unit.operator.builders import NOW, a_job, a_write

Between = Callable[[ClusterCache, Raw], object]


class _Watched:
    """An API server whose answer to a write comes after what a watch says of it."""

    def __init__(self, cache: ClusterCache, answer: Raw, between: Between) -> None:
        self._cache = cache
        self._answer = answer
        self._between = between

    async def request(self, method: str, path: str, **request: Any) -> Raw:
        self._between(self._cache, self._answer)
        return self._answer


def _version(raw: Raw, version: str) -> Raw:
    return {**raw, "metadata": {**raw["metadata"], "resourceVersion": version}}


class _Refusing:
    """An API server that takes every status, and no pod."""

    async def request(self, method: str, path: str, **request: Any) -> Raw:
        if method == "POST":
            raise ApiError(403, "Forbidden", "no such policy")
        return a_job().visited().raw


def an_executor(
    cache: ClusterCache, api: object, ended: list[bool], wall: Callable[[], float] = lambda: 0.0
) -> Executor:
    metrics = Metrics()
    return Executor(
        Writer(cast(ApiServer, api), cache, metrics, lambda: 10.0),
        metrics,
        cast(Any, SimpleNamespace(identity="a")),
        4,
        unchanged=cast(Any, None),
        ended=ended.append,
        wall=wall,
    )


@pytest.mark.parametrize(
    ("between", "soon"),
    [
        pytest.param(lambda cache, answer: None, False, id="no watch event yet"),
        pytest.param(lambda cache, answer: cache.jobs.observe(answer), False, id="the write itself"),
        pytest.param(
            lambda cache, answer: cache.jobs.observe(_version(answer, "9")), True, id="a change after it"
        ),
        pytest.param(lambda cache, answer: cache.jobs.forget(answer["metadata"]), True, id="its deletion"),
    ],
)
async def test_a_job_that_is_changed_by_another_while_its_figures_are_written_is_looked_at_soon(
    between: Between, soon: bool
) -> None:
    """Its watch events do not wake the engine while its writes are in flight."""
    job = a_job().visited()
    cache, ended = ClusterCache(), list[bool]()
    cache.jobs.observe(job.raw)
    executor = an_executor(cache, _Watched(cache, _version(job.raw, "2"), between), ended)
    executor.begin(a_write(job.record, job.record.status), 0.0)
    assert executor.in_flight == {job.record.uid}
    await executor.end()
    assert (ended, executor.in_flight) == ([soon], set())


async def test_a_refusal_is_kept_until_the_status_says_that_the_attempt_is_over() -> None:
    """A job that is refused for days has one refusal at most."""
    executor = an_executor(ClusterCache(), _Refusing(), [])
    job = a_job().visited()
    for attempt in (1, 2, 3):
        before, after = job.record, job.placed("n1").record
        assert after.status.attempt == attempt
        start = a_write(before, after.status, creates=after.status.placement)
        executor.begin(start, NOW)
        await executor.end()
        assert set(executor.refusals) == {(before.uid, attempt)}
        over = job.after(transitions.unplaced, "PodRefused", "no such policy", NOW, NOW).record
        executor.begin(a_write(after, over.status), NOW)
        await executor.end()
        assert executor.refusals == {}


class _WithoutRoom:
    """An API server whose namespaces are full until there is room."""

    def __init__(self) -> None:
        self.room = False
        self.bodies: list[Raw] = []

    async def request(self, method: str, path: str, *, body: Raw, **request: Any) -> Raw:
        self.bodies.append(body)
        if not self.room:
            raise ApiError(403, "Forbidden", "exceeded quota")
        if method == "DELETE":
            return {}
        return {**body, "metadata": {**body["metadata"], "uid": "uid-profile", "resourceVersion": "7"}}


async def test_a_profile_that_is_refused_rests_and_is_then_written_on_what_was_known() -> None:
    now, api, cache = [NOW], _WithoutRoom(), ClusterCache()
    executor = an_executor(cache, api, [], lambda: now[0])
    write = ProfileWrite("ns", "0123", None, TrainingProfileStatus(image="i"))
    executor.begin_profile(write)
    assert write.key in executor.history().busy_profiles
    await executor.end()
    assert write.key in executor.history().busy_profiles
    now[0] += PROFILE_RETRY_SECONDS
    assert write.key not in executor.history().busy_profiles

    api.room = True
    executor.begin_profile(write)
    await executor.end()
    assert write.key not in executor.history().busy_profiles
    (known,) = cache.profiles.records()
    assert known.status == write.status
    executor.begin_profile(replace(write, before=known))
    await executor.end()
    assert api.bodies[-1]["metadata"]["resourceVersion"] == "7", "unless somebody else has written it"
    executor.begin_profile_deletion(known)
    await executor.end()
    assert api.bodies[-1]["preconditions"] == {"uid": "uid-profile"}
    assert cache.profiles.records() == ()
