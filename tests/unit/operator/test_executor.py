"""When a job is looked at again after something was written about it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from laneway.api.attempt_status import AttemptOutcome
from laneway.api.training_profile import TrainingProfileStatus
from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.templates import ProfileWrite
from laneway.operator.execute import executor as executor_module
from laneway.operator.execute.executor import Executor
from laneway.operator.execute.manifests import gang_service
from laneway.operator.execute.writer import Writer
from laneway.operator.lifecycle import transitions
from laneway.operator.metrics import Metrics
from laneway.operator.pacing import PROFILE_RETRY_SECONDS, SERVICE_SEEN_SECONDS
from laneway.operator.state.cache import ClusterCache
from laneway.operator.state.resources import SERVICES
from laneway.operator.watch.apiserver import ApiError, ApiServer, Raw, UnknownOutcome
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import NOW, a_gpu_node, a_job, a_view, a_write, gpu_uuid

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


def _nothing(cache: ClusterCache, answer: Raw) -> None:
    """Nothing happens meanwhile."""


def an_executor(
    cache: ClusterCache,
    api: object,
    ended: list[bool],
    wall: Callable[[], float] = lambda: 0.0,
    refresh: Callable[[object], Awaitable[None]] | None = None,
    metrics: Metrics | None = None,
) -> Executor:
    metrics = metrics or Metrics()
    return Executor(
        Writer(cast(ApiServer, api), cache, metrics, lambda: 10.0),
        metrics,
        cast(Any, SimpleNamespace(identity="a", leads=True)),
        4,
        unchanged=cast(Any, None),
        refresh_job=cast(Any, refresh),
        refresh_node=cast(Any, refresh),
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
    cache, ended = ClusterCache(lambda: 0.0), list[bool]()
    cache.jobs.observe(job.raw)
    executor = an_executor(cache, _Watched(cache, _version(job.raw, "2"), between), ended)
    executor.begin(a_write(job.record, job.record.status), 0.0)
    assert executor.in_flight == {job.record.uid}
    await executor.end()
    assert (ended, executor.in_flight) == ([soon], set())


async def test_preemptions_are_counted_by_action_and_reason() -> None:
    """With rounds, jobs are reassigned all the time: that must not hide preemptions for other jobs."""
    job = a_job().placed("n1").running()
    cache, metrics = ClusterCache(lambda: 0.0), Metrics()
    cache.jobs.observe(job.raw)
    executor = an_executor(cache, _Watched(cache, _version(job.raw, "2"), _nothing), [], metrics=metrics)
    before = job.record
    after = transitions.preempted(before.status, "Reassigned", "Its round is over.", NOW)
    executor.begin(a_write(before, after), NOW)
    await executor.end()
    page = metrics.render().decode()
    assert 'laneway_preemptions_total{action="Evict",namespace="ns",reason="Reassigned"} 1.0' in page
    assert 'laneway_preemptions_total{action="Pause",namespace="ns",reason="HigherQueue"} 0.0' in page


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
        over = job.after(
            transitions.unplaced, AttemptOutcome.ROLLED_BACK, "PodRefused", "no such policy", NOW, NOW
        ).record
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
    now, api, cache = [NOW], _WithoutRoom(), ClusterCache(lambda: 0.0)
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


class _Namespaces:
    """An API server that keeps Services."""

    def __init__(self) -> None:
        self.services: dict[str, Raw] = {}
        self.asked: list[str] = []

    async def request(self, method: str, path: str, *, body: Raw | None = None, **request: Any) -> Raw:
        await asyncio.sleep(0)  # so that others get their turn
        if "/services" not in path:
            assert body is not None
            return {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": "1"}}
        self.asked.append(method)
        if method == "POST":
            assert body is not None
            self.services[f"{path}/{body['metadata']['name']}"] = body
            return body
        if path not in self.services:
            raise ApiError(404, "NotFound", path)
        return self.services[path]


class _Pods(_Namespaces):
    """An API server that keeps the pods that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Raw] = []

    async def request(self, method: str, path: str, *, body: Raw | None = None, **request: Any) -> Raw:
        if method == "POST" and path.endswith("/pods") and body is not None:
            self.made.append(body)
        return await super().request(method, path, body=body, **request)


async def test_gangs_that_start_together_share_one_service_which_is_looked_for_now_and_then() -> None:
    now, api = [NOW], _Namespaces()
    executor = an_executor(ClusterCache(lambda: 0.0), api, [], lambda: now[0])

    async def start(*names: str) -> list[str]:
        api.asked.clear()
        for name in names:
            job = a_job(name).gang(2).placed("n1", "n2").record
            executor.begin(a_write(job, job.status, writes_status=False, creates=job.status.placement), NOW)
        await executor.end()
        assert not executor.refusals
        return api.asked

    assert await start("a", "b", "c") == ["GET", "POST"]
    (path,) = api.services
    assert await start("d") == []
    del api.services[path]
    now[0] += SERVICE_SEEN_SECONDS
    assert await start("e", "f") == ["GET", "POST"]
    now[0] += SERVICE_SEEN_SECONDS
    assert await start("g") == ["GET"]


async def test_all_workers_of_an_attempt_get_its_batch() -> None:
    api, waits = _Pods(), a_job().gang(2).visited()
    before = waits.record
    after = waits.placed("n1", "n2").status(attempt_batch=512).record
    executor = an_executor(ClusterCache(lambda: 0.0), api, [])
    executor.begin(a_write(before, after.status, writes_status=False, creates=after.status.placement), NOW)
    await executor.end()
    variables = [
        {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]} for pod in api.made
    ]
    assert [each["LANEWAY_BATCH"] for each in variables] == ["512", "512"]


@pytest.mark.parametrize("field", ["clusterIP", "selector", "publishNotReadyAddresses"])
async def test_gangs_are_refused_where_another_service_has_the_name(field: str) -> None:
    api, job = _Namespaces(), a_job().gang(2).placed("n1", "n2").record
    theirs = gang_service("ns")
    del theirs["spec"][field]
    api.services[SERVICES.path("ns", "laneway")] = theirs
    executor = an_executor(ClusterCache(lambda: 0.0), api, [])
    executor.begin(a_write(job, job.status, writes_status=False, creates=job.status.placement), NOW)
    await executor.end()
    (refusal,) = executor.refusals.values()
    assert "rename it if it is yours, else delete it" in refusal
    assert api.asked == ["GET"]


class _Failing:
    """An API server on which one job's status meets another version, and which takes all others."""

    def __init__(self, error: Exception) -> None:
        self._error = error
        self.written: list[str] = []

    async def request(self, method: str, path: str, **request: Any) -> Raw:
        if "/releases/" in path:
            raise self._error
        self.written.append(path)
        return a_job("takes").visited().raw


class _Reads:
    """Reads of what a failed write was about."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.may_end = asyncio.Event()

    async def __call__(self, what: object) -> None:
        await self.may_end.wait()
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer


_FAILURES = [
    pytest.param(ApiError(409, "Conflict", "changed"), id="it met another version"),
    pytest.param(UnknownOutcome("no answer"), id="its outcome is unknown"),
]


@pytest.mark.parametrize("error", _FAILURES)
async def test_a_job_is_left_alone_and_releases_nothing_until_it_was_read_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Whether its status was written is not known: its GPUs may be its own still."""
    monkeypatch.setattr(executor_module, "RETRY_WRITE_SECONDS", 0.0)
    placed = a_job("releases").placed("n1").running(since=NOW)
    releases = a_write(placed.record, placed.after(transitions.succeeded, "done", NOW, NOW).record.status)
    waits = a_job("takes").visited()
    takes = a_write(waits.record, waits.placed("n1").record.status, creates=())
    assert releases.releases & takes.depends_on, "the one gets the other's GPU"
    api, reads = _Failing(error), _Reads(UnknownOutcome("no answer"), None)
    ended = list[bool]()
    executor = an_executor(ClusterCache(lambda: 0.0), api, ended, refresh=reads)
    executor.begin(releases, NOW)
    executor.begin(takes, NOW)
    for _ in range(20):
        await asyncio.sleep(0)
    assert executor.in_flight == {releases.job.uid, takes.job.uid}
    reads.may_end.set()
    await executor.end()
    assert (api.written, executor.in_flight, reads.answers) == ([], set(), [])
    assert ended == [True, True], "each is looked at again once"


async def test_what_cannot_be_read_again_is_given_up_when_this_replica_no_longer_leads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor_module, "RETRY_WRITE_SECONDS", 0.0)
    job = a_job("releases").visited()
    executor = an_executor(
        ClusterCache(lambda: 0.0),
        _Failing(UnknownOutcome("no answer")),
        [],
        refresh=_Away(),
    )
    executor.begin(a_write(job.record, job.record.status), NOW)
    for _ in range(100):
        await asyncio.sleep(0)
    assert executor.in_flight
    cast(Any, executor._leadership).leads = False
    await asyncio.wait_for(executor.end(), 30)


class _Away:
    async def __call__(self, what: object) -> None:
        raise UnknownOutcome("no answer")


async def test_jobs_that_cannot_be_read_again_do_not_keep_others_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where the rights in one of several namespaces were taken away."""
    monkeypatch.setattr(executor_module, "RETRY_WRITE_SECONDS", 0.0)

    async def refuse(*arguments: object, **more: object) -> None:
        raise ApiError(403, "Forbidden", "cannot do that in the namespace gone")

    gone = [a_job(f"a{n}").metadata(namespace="gone", name=f"a{n}").visited().record for n in range(2)]
    view = a_view([*gone, a_job("z").visited().record], [], [a_gpu_node("n1", gpus=8)])
    cycle = Cycle(OperatorConfig.model_validate({"cycle": {"startsPerCycle": 2}}))
    api = SimpleNamespace(request=refuse)
    executor = an_executor(ClusterCache(lambda: 0.0), api, [], refresh=refuse)
    first = cycle.run(view, executor.history(), NOW).writes
    assert {write.job.key for write in first} == {"gone/a0", "gone/a1"}
    for write in first:
        executor.begin(write, NOW)
    for _ in range(50):
        await asyncio.sleep(0)
    second = cycle.run(view, executor.history(), NOW + 1, executor.in_flight).writes
    assert {write.job.key for write in second} == {"ns/z"}
    cast(Any, executor._leadership).leads = False
    await executor.end()


async def test_jobs_that_swap_gpus_do_not_wait_for_each_other() -> None:
    """The pods of both are gone, and each starts again where the other was."""
    b = a_job("b").placed("n1", at=NOW - 600).running(since=NOW - 600)
    a = a_job("a").placed("n1", at=NOW - 600).running(since=NOW - 600)
    (worker,) = a.record.status.placement
    a = a.status(placement=(worker.model_copy(update={"gpus": (gpu_uuid("n1", 1),)}),))
    jobs = {each.key: each for each in (a.record, b.record)}
    cycle, gpu_nodes = Cycle(OperatorConfig()), [a_gpu_node("n1", gpus=2)]
    executor = an_executor(ClusterCache(lambda: 0.0), _Echo(), [])
    for _ in range(2):
        result = cycle.run(a_view(jobs.values(), [], gpu_nodes), executor.history(), NOW)
        assert {write.job.key for write in result.writes} == {"ns/a", "ns/b"}
        for write in result.writes:
            executor.begin(write, NOW)
            jobs[write.job.key] = write.job.with_status(write.status)
        await asyncio.wait_for(executor.end(), 30)
    assert [jobs[key].status.placement[0].gpus for key in ("ns/a", "ns/b")] == [
        (gpu_uuid("n1", 0),),
        (gpu_uuid("n1", 1),),
    ]


class _Echo:
    """An API server that takes all writes."""

    async def request(self, method: str, path: str, *, body: Raw | None = None, **more: object) -> Raw:
        assert body is not None
        return {**body, "metadata": {"uid": "u", **body["metadata"], "resourceVersion": "7"}}


async def test_a_node_s_orders_are_left_alone_until_it_was_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(executor_module, "RETRY_WRITE_SECONDS", 0.0)
    reads = _Reads(None)

    async def refuse(write: object) -> None:
        raise ApiError(409, "Conflict", "changed")

    executor = an_executor(ClusterCache(lambda: 0.0), None, [], refresh=reads)
    monkeypatch.setattr(executor._writer, "write_orders", refuse)
    executor.begin_orders(cast(Any, SimpleNamespace(node=SimpleNamespace(name="n1"), orders=())))
    for _ in range(20):
        await asyncio.sleep(0)
    assert executor.nodes_in_flight == {"n1"}
    reads.may_end.set()
    await executor.end()
    assert executor.nodes_in_flight == set()
