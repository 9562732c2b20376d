"""TrainingJobs that are listed again after each change."""

from __future__ import annotations

import json

import pytest
import yaml
from laneway.cli.job_table import changed_jobs, job_listing
from laneway.sdk import TrainingJob

from tests.support.training_jobs import a_condition, a_job, a_reason


def seen(name: str, version: int, state: str = "Running") -> TrainingJob:
    job = a_job(name, conditions=[a_condition("Placed"), a_condition(state)])
    job["metadata"] |= {"uid": name, "resourceVersion": str(version)}
    return TrainingJob(job)


SNAPSHOTS = [
    [seen("a", 1), seen("b", 1)],
    [seen("a", 1), seen("b", 2, "Complete")],
    [seen("b", 2, "Complete")],
    [seen("b", 2, "Complete"), seen("c", 3)],
]


def test_each_job_is_written_when_it_has_changed(capsys: pytest.CaptureFixture[str]) -> None:
    job_listing(namespaces=False).show_changes(changed_jobs(SNAPSHOTS), None)
    words = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert words == [
        ["NAME", "STATE"],
        ["a", "Running"],
        ["b", "Running"],
        ["b", "Complete"],
        ["a", "Deleted"],
        ["c", "Running"],
    ]


def test_a_job_of_the_same_name_follows_the_deleted_one(capsys: pytest.CaptureFixture[str]) -> None:
    again = seen("a", 2)
    again.object["metadata"]["uid"] = "another"
    job_listing(namespaces=False).show_changes(changed_jobs([[seen("a", 1)], [again]]), None)
    states = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
    assert states == ["STATE", "Running", "Deleted", "Running"]


def test_a_job_that_is_gone_waits_for_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    waits = seen("a", 1)
    waits = TrainingJob(
        {**waits.object, "status": {"state": "Pending", "reason": "GPUsBusy", "waiting": a_reason()}}
    )
    job_listing(namespaces=False).show_changes(changed_jobs([[waits], []]), None)
    before, after = (line.split() for line in capsys.readouterr().out.splitlines()[1:])
    position = 7
    assert (before[:3], before[position]) == (["a", "Pending", "GPUsBusy"], "2")
    assert (after[:3], after[position]) == (["a", "Deleted", "-"], "-")


@pytest.mark.parametrize("output", ["json", "yaml", "name"])
def test_programs_read_a_stream_of_objects(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    job_listing(namespaces=False).show_changes(changed_jobs(SNAPSHOTS), output)
    text = capsys.readouterr().out
    if output == "json":
        stream = text.replace("}\n{", "},{")
        names = [each["metadata"]["name"] for each in json.loads(f"[{stream}]")]
    elif output == "yaml":
        names = [each["metadata"]["name"] for each in yaml.safe_load_all(text)]
    else:
        names = [line.rpartition("/")[2] for line in text.splitlines()]
    assert names == ["a", "b", "b", "c"]


def test_an_empty_list_shows_that_it_is_watched(capsys: pytest.CaptureFixture[str]) -> None:
    job_listing(namespaces=True).show_changes(changed_jobs([[], [seen("a", 1)]]), None)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["NAMESPACE", "team"]
