"""The jobs that wait, as ``queue`` lists them."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from laneway.cli.main import main
from laneway.cli.verbs import queue
from laneway.cli.verbs.queue import queue_table, queued
from laneway.sdk import TrainingJob

from tests.support.training_jobs import CREATED_SECONDS, a_condition, a_job, a_reason


def waits(name: str, version: int = 1, **fields: Any) -> TrainingJob:
    return identified(
        a_job(name, conditions=[a_condition("Accepted")], waiting=a_reason(**fields), preemptions=2), version
    )


def runs(name: str, version: int = 1) -> TrainingJob:
    return identified(a_job(name, conditions=[a_condition("Running")]), version)


def identified(job: dict[str, Any], version: int) -> TrainingJob:
    job["metadata"] |= {"uid": job["metadata"]["name"], "resourceVersion": str(version)}
    return TrainingJob(job)


JOBS = [
    waits("third", position=3),
    waits("no-position", position=None, reason="QuotaExceeded"),
    waits("first", position=1, estimatedStart="2026-01-31T12:10:00Z"),
    runs("runs"),
]


def test_the_next_one_comes_first() -> None:
    found = queued(JOBS)
    assert [job.name for job in found] == ["first", "third", "no-position"]
    header, first, _, last = queue_table(found, CREATED_SECONDS + 60, namespaces=False).splitlines()
    assert header.split() == [
        "POSITION", "NAME", "QUEUE", "SERVICE", "GPUS", "WAITING", "START", "REASON", "TO", "RUN",
    ]  # fmt: skip
    assert re.split(" {3,}", first) == [
        "1", "first", "0", "0 GPU-s", "50% GPU", "1m", "in 9m", "GPUsBusy", "It starts when 3 more GPUs have room.",
    ]  # fmt: skip
    assert last.split()[:2] == ["-", "no-position"]
    everywhere = queue_table(found, CREATED_SECONDS, namespaces=True).splitlines()
    assert [line.split()[0] for line in everywhere] == ["NAMESPACE", "team", "team", "team"]


def test_wide_adds_the_columns_of_list() -> None:
    header, line = queue_table([JOBS[0]], CREATED_SECONDS, namespaces=False, wide=True).splitlines()
    assert header.split()[-4:] == ["NODES", "ATTEMPTS", "PREEMPTIONS", "RESTARTS"]
    assert line.split()[-4:] == ["-", "0", "2", "0"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the verb reads in place of a cluster."""
    read = SimpleNamespace(jobs=JOBS, snapshots=[])
    client = SimpleNamespace(
        namespace="team",
        list_jobs=lambda **_: read.jobs,
        watch_jobs=lambda **_: iter(read.snapshots),
    )
    monkeypatch.setattr(queue, "open_client", lambda arguments: client)
    return read


@pytest.mark.parametrize("output", ["json", "yaml", "name"])
def test_programs_read_the_jobs_in_their_order(
    output: str, cluster: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    def names() -> list[str]:
        assert main(["queue", "-o", output]) == 0
        text = capsys.readouterr().out
        if output == "name":
            return [line.removeprefix("trainingjob.laneway.dev/") for line in text.splitlines()]
        found = json.loads(text) if output == "json" else yaml.safe_load(text)
        assert found["kind"] == "List"
        return [job["metadata"]["name"] for job in found["items"]]

    assert names() == ["first", "third", "no-position"]
    cluster.jobs = [runs("runs")]
    assert names() == []


def test_an_empty_queue_is_said(cluster: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.jobs = [runs("runs")]
    assert main(["queue"]) == 0
    assert capsys.readouterr().out == "No TrainingJob waits in namespace team.\n"


def test_a_queue_that_is_watched_shows_each_change(
    cluster: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b, c = waits("a", position=1), waits("b", position=2), runs("c")
    cluster.snapshots = [
        [b, a, c],
        [b, runs("a", 2), c],
        [waits("b", 2, position=1), runs("a", 2), c],
        [waits("b", 3, position=2), runs("a", 2), waits("c", 2, position=1)],
        [waits("b", 3, position=2)],
    ]
    assert main(["queue", "--watch"]) == 0
    words = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert words == [["POSITION", "NAME"], ["1", "a"], ["2", "b"], ["1", "b"], ["1", "c"], ["2", "b"]]
    assert main(["queue", "-w", "-o", "json"]) == 0
    stream = capsys.readouterr().out.replace("}\n{", "},{")
    assert [job["metadata"]["name"] for job in json.loads(f"[{stream}]")] == ["a", "b", "b", "c", "b"]
