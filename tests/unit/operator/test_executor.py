"""When a job is looked at again after something was written about it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from laneway.operator.execute.executor import Executor
from laneway.operator.execute.writer import Writer
from laneway.operator.lifecycle import transitions
from laneway.operator.metrics import Metrics
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


def an_executor(cache: ClusterCache, api: object, ended: list[bool]) -> Executor:
    metrics = Metrics()
    return Executor(
        Writer(cast(ApiServer, api), cache, metrics, lambda: 10.0),
        metrics,
        cast(Any, SimpleNamespace(identity="a")),
        4,
        unchanged=cast(Any, None),
        ended=ended.append,
        wall=lambda: 0.0,
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
    cache, ended = ClusterCache(lambda: 0.0), list[bool]()
    cache.jobs.observe(job.raw)
    executor = an_executor(cache, _Watched(cache, _version(job.raw, "2"), between), ended)
    executor.begin(a_write(job.record, job.record.status), 0.0)
    assert executor.in_flight == {job.record.uid}
    await executor.end()
    assert (ended, executor.in_flight) == ([soon], set())


async def test_a_refusal_is_kept_until_the_status_says_that_the_attempt_is_over() -> None:
    """A job that is refused for days has one refusal at most."""
    executor = an_executor(ClusterCache(lambda: 0.0), _Refusing(), [])
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
