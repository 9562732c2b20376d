"""Waits, watches and followed logs while the API server restarts, cuts connections, or no longer knows the changes since a version."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from laneway.api import retries
from laneway.sdk import (
    ForbiddenError,
    LanewayError,
    TrainingJobClient,
    UnreachableError,
    logs,
    outage,
    watch,
)

from hack.cluster.probes import wait_until
from tests.integration.sdk.played_api import Answer, Object, PlayedAPI, document, events, objects

_DEADLINE_SECONDS = 60
_ATTENDED = """
import signal, sys
from laneway.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""
"""The command line as in a terminal. A test run in the background of a shell ignores the signal, and so would what it starts."""


@pytest.fixture
def api() -> Iterator[PlayedAPI]:
    played = PlayedAPI()
    yield played
    played.stop()


@pytest.fixture
def client(api: PlayedAPI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainingJobClient:
    """Its pauses are short."""
    monkeypatch.setattr(retries, "_FIRST_SECONDS", 0.001)
    monkeypatch.setattr(retries, "_LONGEST_SECONDS", 0.02)
    monkeypatch.setattr(watch, "_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(logs, "_POLL_SECONDS", 0.001)
    return TrainingJobClient(kubeconfig=str(api.kubeconfig(tmp_path)))


def job(version: int, state: str = "Running") -> Object:
    condition = {
        "type": state,
        "status": "True",
        "reason": "R",
        "message": "M.",
        "lastTransitionTime": "2026-01-31T12:00:00Z",
    }
    return {
        "metadata": {"namespace": "team", "name": "digits", "uid": "u", "resourceVersion": str(version)},
        "spec": {"gpus": {"type": "Count", "count": 1}},
        "status": {"state": state, "conditions": [condition]},
    }


def bookmark(version: int) -> tuple[str, Object]:
    return "BOOKMARK", {"metadata": {"resourceVersion": str(version)}}


TOO_OLD = ("ERROR", {"code": 410, "reason": "Expired", "message": "too old resource version"})
NOT_READY = document({"message": "the server is starting"}, 503)
FORBIDDEN = document({"message": "no"}, 403)
BUSY = document({"message": "too many requests"}, 429)
NO_LEADER = ("ERROR", {"code": 500, "message": "etcdserver: leader changed"})


@pytest.mark.parametrize(
    ("story", "answers", "versions"),
    [
        ("a connection is cut", [events(("MODIFIED", job(2)), end="cut")], ["1", "2"]),
        ("a watch has lasted its time", [events(bookmark(7))], ["1", "7"]),
        ("the API server starts", [NOT_READY, NOT_READY], ["1", "1", "1"]),
        ("the API server is overloaded", [BUSY], ["1", "1"]),
        ("etcd has no leader", [events(bookmark(3), NO_LEADER)], ["1", "3"]),
        ("the changes are gone", [events(bookmark(3), TOO_OLD)], ["1", "5"]),
        ("the changes are gone, said at once", [document({"message": "gone"}, 410)], ["1", "5"]),
        ("the API server does not know the rights yet", [events(bookmark(2)), FORBIDDEN], ["1", "2", "2"]),
        ("a proxy answers", [Answer(b"<html>\n")], ["1", "1"]),
        ("a proxy answers with JSON", [Answer(b"{}\n"), Answer(b"[]\n"), Answer(b"null\n")], ["1"] * 4),
    ],
)
def test_a_wait_goes_on(
    client: TrainingJobClient, api: PlayedAPI, story: str, answers: list[Answer], versions: list[str]
) -> None:
    api.answers["trainingjobs"].extend([objects(job(1)), objects(job(5), version="5")])
    api.answers["watch"].extend([*answers, events(("MODIFIED", job(9, "Complete")))])
    assert client.wait_for_job_status("digits", timeout=_DEADLINE_SECONDS).status == "Complete", story
    assert [query["resourceVersion"] for query in api.asked("watch")] == versions, story
    assert len(api.asked("trainingjobs")) == (2 if "gone" in story else 1), story


def test_a_wait_survives_a_restart_of_the_api_server(client: TrainingJobClient, api: PlayedAPI) -> None:
    api.answers["trainingjobs"].append(objects(job(1)))
    api.answers["watch"].append(events(("MODIFIED", job(2)), end="held"))
    states = client.watch_job("digits")
    seen = [next(states), next(states)]
    with api.outage():
        api.answers["watch"] += [events(("MODIFIED", job(3, "Complete")))]
        api.answers["watch"].popleft()
    seen.append(next(states))
    assert [each and each.object["metadata"]["resourceVersion"] for each in seen] == ["1", "2", "3"]
    assert len(api.asked("trainingjobs")) == 1


def test_a_time_limit_holds_in_an_outage(client: TrainingJobClient, api: PlayedAPI) -> None:
    api.answers["trainingjobs"].append(objects(job(1)))
    api.answers["watch"].append(NOT_READY)
    with pytest.raises(TimeoutError, match=r"in none of the states Complete after 0\.1 s"):
        client.wait_for_job_status("digits", timeout=0.1)


@pytest.mark.parametrize(
    ("lists", "watches", "error"),
    [
        ([NOT_READY], [], UnreachableError),
        ([objects(job(1))], [FORBIDDEN], ForbiddenError),
    ],
)
def test_what_a_wait_does_not_outlast(
    client: TrainingJobClient,
    api: PlayedAPI,
    monkeypatch: pytest.MonkeyPatch,
    lists: list[Answer],
    watches: list[Answer],
    error: type[LanewayError],
) -> None:
    monkeypatch.setattr(outage, "_REFUSED_SECONDS", 0.1)
    api.answers["trainingjobs"].extend(lists)
    api.answers["watch"].extend(watches)
    with pytest.raises(error):
        client.wait_for_job_status("digits")


def test_a_lasting_outage_is_said_once_and_so_is_its_end(
    client: TrainingJobClient,
    api: PlayedAPI,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(outage, "_SAID_AFTER_SECONDS", 0.0)
    api.answers["trainingjobs"].append(objects(job(1)))
    api.answers["watch"].extend([NOT_READY] * 5 + [events(("MODIFIED", job(2, "Complete")))])
    with caplog.at_level(logging.WARNING):
        client.wait_for_job_status("digits")
    assert [record.message for record in caplog.records] == [
        "TrainingJob digits in namespace team: the server is starting; trying again",
        "connected again",
    ]


def test_a_short_outage_is_not_said(
    client: TrainingJobClient, api: PlayedAPI, caplog: pytest.LogCaptureFixture
) -> None:
    api.answers["trainingjobs"].append(objects(job(1)))
    api.answers["watch"].extend([NOT_READY, events(("MODIFIED", job(2, "Complete")))])
    client.wait_for_job_status("digits")
    assert not caplog.records


def test_ctrl_c_ends_a_wait_at_once_while_the_api_server_is_away(api: PlayedAPI, tmp_path: Path) -> None:
    api.answers["trainingjobs"].append(objects(job(1)))
    api.answers["watch"].append(events(end="held"))
    kubeconfig = str(api.kubeconfig(tmp_path))
    command = [sys.executable, "-c", _ATTENDED, "--kubeconfig", kubeconfig, "wait", "digits"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            wait_until(lambda: bool(api.asked("watch")), "the command watches the job", _DEADLINE_SECONDS)
            with api.outage():
                line = process.stderr.readline()
                process.send_signal(signal.SIGINT)
                assert process.wait(_DEADLINE_SECONDS) == 130
            url = f"http://127.0.0.1:{api.port}"
            assert line == f"cannot reach the cluster at {url}: Connection refused; trying again\n"
            assert process.stderr.read() == ""
        finally:
            process.kill()


def worker(state: str, uid: str = "p") -> Answer:
    statuses = [{"name": "trainer", "state": {state: {"startedAt": "2026-01-31T12:00:00Z"}}}]
    return document(
        {
            "metadata": {"uid": uid, "name": "digits-0"},
            "spec": {"containers": [{"name": "trainer"}]},
            "status": {"containerStatuses": statuses},
        }
    )


A, B, C = (
    f"2026-01-31T12:00:0{second}00Z {text}\n".encode()
    for second, text in (("1.1", "a"), ("1.2", "b"), ("2.3", "c"))
)


@pytest.mark.parametrize(
    ("story", "streams"),
    [
        ("a stream ends while the worker runs", [Answer(A + B), Answer(A + B + C)]),
        ("a stream is cut within a line", [Answer(A + B[:-1], end="cut"), Answer(A + B), Answer(C)]),
        ("the kubelet does not answer", [Answer(A + B), document({"message": "dial"}, 500), Answer(B + C)]),
        ("the pod is gone for a moment", [document({"message": "no"}, 404), Answer(A + B + C)]),
        ("a new pod's container has not started", [document({"message": "no"}, 400), Answer(A + B + C)]),
    ],
)
def test_a_followed_log_is_complete_and_has_each_line_once(
    client: TrainingJobClient, api: PlayedAPI, story: str, streams: list[Answer]
) -> None:
    api.answers["digits"].extend([document(job(1))] * 8 + [document(job(2, "Complete"))])
    api.answers["digits-0"].extend([worker("running")] * len(streams) + [worker("terminated")])
    api.answers["log"].extend([*streams, Answer(C)])
    assert list(client.get_job_logs("digits", follow=True)) == ["a", "b", "c"], story
    since = [query.get("sinceTime") for query in api.asked("log")]
    assert (since[0], since[-1]) == (None, "2026-01-31T12:00:02Z"), story


def test_the_logs_of_several_attempts_follow_one_another(client: TrainingJobClient, api: PlayedAPI) -> None:
    api.answers["digits"].extend([document(job(1))] * 4 + [document(job(2, "Complete"))])
    missing = document({"message": "no"}, 404)
    api.answers["digits-0"].extend([worker("terminated"), missing, worker("terminated", "q")])
    api.answers["log"].extend([Answer(A), Answer(B + C)])
    assert list(client.get_job_logs("digits", follow=True)) == ["a", "b", "c"]
    assert [query.get("sinceTime") for query in api.asked("log")] == [None, None]


def test_a_followed_log_survives_a_restart_of_the_api_server(
    client: TrainingJobClient, api: PlayedAPI
) -> None:
    api.answers["digits"].append(document(job(1)))
    api.answers["digits-0"].append(worker("running"))
    api.answers["log"].append(Answer(A, end="held"))
    lines = client.get_job_logs("digits", follow=True)
    seen = [next(lines)]
    with api.outage():
        api.answers["digits"].append(document(job(2, "Complete")))
        api.answers["digits-0"].append(worker("terminated"))
        api.answers["log"].append(Answer(A + B + C))
        for queue in api.answers.values():
            queue.popleft()
    assert [*seen, *lines] == ["a", "b", "c"]


def test_the_log_of_a_job_that_has_ended_on_a_lost_node_is_given_up(
    client: TrainingJobClient, api: PlayedAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_LAST_TRIES_SECONDS", 0.05)
    api.answers["digits"].append(document(job(2, "Failed")))
    api.answers["digits-0"].append(worker("running"))
    api.answers["log"].append(document({"message": "dial tcp: no route to host"}, 500))
    with pytest.raises(UnreachableError, match="log of pod digits-0: dial tcp: no route to host"):
        list(client.get_job_logs("digits", follow=True))


def test_events_take_two_lists_however_many_workers_there_are(
    client: TrainingJobClient, api: PlayedAPI
) -> None:
    def event(kind: str, name: str, second: int) -> Object:
        created = f"2026-01-31T12:00:0{second}Z"
        return {
            "metadata": {"creationTimestamp": created},
            "involvedObject": {"kind": kind, "name": name},
            "lastTimestamp": created,
        }

    gang = job(1)
    gang["metadata"]["creationTimestamp"] = "2026-01-31T12:00:00Z"
    gang["spec"]["workers"] = 64
    api.answers["digits"].append(document(gang))
    api.answers["events"].extend(
        [
            objects(event("TrainingJob", "digits", 1)),
            objects(event("Pod", "digits-63", 3), event("Pod", "digits-64", 3), more="next page"),
            objects(event("Pod", "digits-0", 2), event("Pod", "digits-0-0", 2)),
        ]
    )
    found = client.get_job_events("digits")
    assert [each.involved_object_name for each in found] == ["digits", "digits-0", "digits-63"]
    assert [(each["fieldSelector"], each.get("continue")) for each in api.asked("events")] == [
        ("involvedObject.kind=TrainingJob,involvedObject.name=digits", None),
        ("involvedObject.kind=Pod", None),
        ("involvedObject.kind=Pod", "next page"),
    ]
