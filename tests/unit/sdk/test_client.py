"""What the client decides without a cluster."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from laneway.sdk import (
    AsyncTrainingJobClient,
    JobFailedError,
    NotFoundError,
    TrainingJob,
    TrainingJobClient,
    WrongArgumentError,
)
from laneway.sdk.aio import _iterate
from laneway.sdk.client import check_status, reached
from laneway.sdk.cluster import Cluster, refusal
from laneway.sdk.job import Event
from laneway.sdk.logs import container_of, has_started

from tests.support.training_jobs import a_condition, a_job, a_reason, an_ended_attempt


def test_it_loads_neither_numpy_nor_the_simulator() -> None:
    code = "import sys, laneway.sdk; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    heavy = ("numpy", "scipy", "laneway.simulator", "laneway.scheduling")
    assert [name for name in done.stdout.split() if name.startswith(heavy)] == []


RUNNING = TrainingJob(a_job(conditions=[a_condition("Placed"), a_condition("Running")]))
COMPLETE = TrainingJob(a_job(conditions=[a_condition("Complete")]))
FAILED = TrainingJob(a_job(conditions=[a_condition("Failed", message="Worker 0 failed.")]))


@pytest.mark.parametrize(
    ("story", "job", "wanted", "want"),
    [
        ("it still runs", RUNNING, {"Complete"}, False),
        ("it runs, as wanted", RUNNING, {"Running"}, True),
        ("it has completed", COMPLETE, {"Complete"}, True),
        ("it has failed, as wanted", FAILED, {"Complete", "Failed"}, True),
        ("it was too fast to be seen running", COMPLETE, {"Running"}, True),
    ],
)
def test_when_a_wait_is_over(story: str, job: TrainingJob, wanted: set[str], want: bool) -> None:
    seen: list[TrainingJob] = []
    assert reached(job, wanted, "digits", [seen.append]) is want, story
    assert seen == [job]


def test_a_wait_that_cannot_end_well_is_an_error() -> None:
    with pytest.raises(JobFailedError, match=r"digits is Failed: Worker 0 failed\."):
        reached(FAILED, {"Complete"}, "digits", [])
    with pytest.raises(JobFailedError, match="is Complete"):
        reached(COMPLETE, {"Paused"}, "digits", [])
    with pytest.raises(NotFoundError, match="not found"):
        reached(None, {"Complete"}, "digits", [])


def test_a_missing_namespace_is_named() -> None:
    body = b'{"message": "namespaces \\"team\\" not found"}'
    error = refusal(404, body, "Not Found", "TrainingJob digits in namespace team")
    assert isinstance(error, NotFoundError)
    assert str(error) == "namespace team does not exist: create it first, or name another one"


@pytest.mark.parametrize("wrong", [{"Created"}, "Running", {"Complete", "Done"}])
def test_unknown_states_are_refused(wrong: Any) -> None:
    with pytest.raises(WrongArgumentError, match="write a set of Invalid, Pending"):
        check_status(wrong)


def test_a_job_tells_its_state() -> None:
    waits = TrainingJob(
        a_job(conditions=[a_condition("Accepted")], waiting=a_reason(), progress={"percent": 40})
    )
    assert (waits.name, waits.namespace, waits.num_nodes) == ("digits", "team", 1)
    assert (waits.status, waits.reason, waits.message) == ("Pending", "GPUsBusy", "It needs 4 GPUs.")
    assert (waits.progress_percent, waits.finished) == (40, False)
    assert waits.creation_timestamp.isoformat() == "2026-01-31T12:00:00+00:00"
    unseen = TrainingJob(a_job())
    assert (unseen.status, unseen.message, unseen.progress_percent) == ("Pending", "", None)


def test_a_job_tells_its_ended_attempts() -> None:
    preempted, rolled_back = TrainingJob(
        a_job(endedAttempts=[an_ended_attempt(), an_ended_attempt(2, outcome="RolledBack", lost=None)])
    ).ended_attempts
    assert (preempted.attempt, preempted.outcome, preempted.reason) == (1, "Preempted", "HigherQueue")
    assert preempted.message == "Preempted by team/new (queue 0 before queue 1)."
    assert (preempted.ended_at - preempted.started_at).total_seconds() == 60
    assert (preempted.num_nodes, preempted.gpu_seconds, preempted.lost_gpu_seconds) == (2, 100.0, 30.0)
    assert (rolled_back.attempt, rolled_back.lost_gpu_seconds) == (2, None)
    assert TrainingJob(a_job()).ended_attempts == ()


@pytest.mark.parametrize(
    ("event", "want"),
    [
        ({"series": {"lastObservedTime": "2026-01-31T12:00:03Z"}, "eventTime": "2026-01-31T12:00:01Z"}, 3),
        ({"lastTimestamp": "2026-01-31T12:00:02Z"}, 2),
        ({"eventTime": "2026-01-31T12:00:01Z"}, 1),
        ({}, 0),
    ],
)
def test_when_an_event_was_last_seen(event: dict[str, Any], want: int) -> None:
    metadata = {"creationTimestamp": "2026-01-31T12:00:00Z"}
    assert Event({"metadata": metadata, **event}).event_time.second == want


def test_which_container_and_whether_it_has_a_log() -> None:
    pod = {
        "spec": {"containers": [{"name": "sidecar"}, {"name": "trainer"}]},
        "status": {
            "containerStatuses": [
                {"name": "sidecar", "state": {"waiting": {}}},
                {"name": "trainer", "state": {"running": {"startedAt": "x"}}},
            ]
        },
    }
    assert container_of(pod, None) == "trainer"
    assert has_started(pod, "trainer")
    assert not has_started(pod, "sidecar")
    with pytest.raises(WrongArgumentError, match="the pod has sidecar, trainer"):
        container_of(pod, "main")


class Untouched:
    """A cluster that no request may reach."""

    namespace = "team-a"

    def get(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a request was sent")

    patch = delete = stream = get


@pytest.mark.parametrize("name", ["", "..", ".", "a/status", "../pods/a", "a?dryRun=All", "a b", "ä"])
def test_a_name_reaches_no_other_object_and_an_empty_one_not_all_of_them(name: str) -> None:
    client = TrainingJobClient(cluster=cast(Cluster, Untouched()))
    for verb in (client.get_job, client.delete_job, client.suspend_job, client.resume_job):
        with pytest.raises(WrongArgumentError, match="is no name of an object"):
            verb(name)
    with pytest.raises(WrongArgumentError, match="is no name of an object"):
        next(client.watch_job(name))
    elsewhere = TrainingJobClient(namespace="../b", cluster=client.cluster)
    with pytest.raises(WrongArgumentError, match="is no name of an object"):
        elsewhere.list_jobs()


def test_both_clients_have_the_same_verbs() -> None:
    def verbs(client: type) -> dict[str, dict[str, tuple[Any, ...]]]:
        return {
            name: {
                each.name: (each.kind, each.default, each.annotation)
                for each in inspect.signature(verb).parameters.values()
            }
            for name, verb in inspect.getmembers(client, inspect.isfunction)
            if not name.startswith("_")
        }

    found = verbs(TrainingJobClient)
    assert {"train", "watch_jobs"} <= set(found)
    assert verbs(AsyncTrainingJobClient) == found


async def test_a_cancelled_wait_ends_its_thread() -> None:
    waits, closed = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield 1
        waits.set()
        closed.wait()

    async def read() -> None:
        async for _ in _iterate(items(), closed.set):
            pass

    task = asyncio.create_task(read())
    await asyncio.to_thread(waits.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed.is_set()


async def test_jobs_that_are_watched_hold_up_no_other_request() -> None:
    ends = threading.Event()

    def waits() -> Iterator[int]:
        ends.wait()
        yield 1

    async def read() -> None:
        async for _ in _iterate(waits(), ends.set):
            pass

    answers = SimpleNamespace(namespace="a", get=lambda path, what: a_job("b"))
    client = AsyncTrainingJobClient(TrainingJobClient(cluster=cast(Cluster, answers)))
    watches = [asyncio.create_task(read()) for _ in range(100)]  # more than asyncio's own threads
    await asyncio.sleep(0)  # each of them begins
    try:
        async with asyncio.timeout(60):
            assert (await client.get_job("b")).name == "b"
    finally:
        ends.set()
    await asyncio.gather(*watches)
