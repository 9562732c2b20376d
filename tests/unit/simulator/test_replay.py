"""What a cluster recorded, read from what kubectl gives out, and compared with a simulation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from laneway.api.rfc3339 import format_time
from laneway.cli import exit_codes
from laneway.cli.main import main
from laneway.scheduling import Demand, HostResources, PlacementMode, Profile, StageSeconds
from laneway.simulator import (
    Costs,
    InputError,
    Latencies,
    OperatorModel,
    compare,
    costs_as_recorded,
    operator_as_recorded,
    read_records,
)

from tests.unit.simulator.builders import FREE, simulated

NOON = 1_800_000_000.0
"""When the first job was submitted, in Unix time."""

GPU_NODE = {
    "apiVersion": "laneway.dev/v1alpha1",
    "kind": "GPUNode",
    "metadata": {"name": "n1"},
    "status": {
        "gpuCount": 1,
        "gpus": [
            {
                "uuid": "GPU-1",
                "index": 0,
                "model": "A100",
                "memoryBytes": 85899345920,
                "allocatableBytes": 85584773120,
                "allocatablePercent": 100,
                "healthy": True,
            }
        ],
    },
}


def a_record(
    name: str,
    *,
    created: float,
    started: float | None,
    ended: float | None,
    executed: float,
    how: str = "Complete",
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A TrainingJob as kubectl gives it out; times in seconds since noon."""
    conditions = [condition("Accepted", "True", created)]
    if ended is not None:
        conditions.append(condition(how, "True", ended))
    times = {
        **({} if started is None else {"startTime": format_time(NOON + started)}),
        **({} if ended is None else {"completionTime": format_time(NOON + ended)}),
    }
    return {
        "apiVersion": "laneway.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {
            "namespace": "team",
            "name": name,
            "uid": f"uid-{name}",
            "creationTimestamp": format_time(float(int(NOON + created))),
        },
        "spec": {
            "workers": 1,
            "gpus": {"type": "Count", "count": 1},
            "template": {"spec": {"containers": [{"name": "trainer", "image": "i"}]}},
            **(spec or {}),
        },
        "status": {
            "conditions": conditions,
            "executedMilliseconds": round(executed * 1000),
            **times,
            **(status or {}),
        },
    }


def condition(kind: str, status: str, at: float) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": kind,
        "message": "",
        "lastTransitionTime": format_time(NOON + at),
    }


def an_event(job: str, reason: str, at: float) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "reason": reason,
        "eventTime": format_time(NOON + at),
        "regarding": {"kind": "TrainingJob", "namespace": "team", "name": job, "uid": f"uid-{job}"},
    }


def written(folder: Path, *items: dict[str, Any]) -> Path:
    path = folder / "records.json"
    path.write_text(json.dumps({"kind": "List", "items": list(items)}), encoding="utf-8")
    return path


ONE_AFTER_THE_OTHER = (
    a_record("a", created=0.25, started=2.25, ended=12.25, executed=10),
    a_record("b", created=1.0, started=14.25, ended=34.25, executed=20),
)
"""Each took 2 s to start."""


def test_a_recorded_start_contains_the_start_of_the_pods() -> None:
    operator = OperatorModel(latencies=Latencies(pods_seconds=3.0))
    assert operator_as_recorded(operator, ()).latencies == Latencies(pods_seconds=0.0)
    assert operator_as_recorded(operator, ["pods_seconds"]) == operator


def test_a_record_becomes_a_job_of_a_trace(tmp_path: Path) -> None:
    spec = {
        "workers": 2,
        "gpus": {"type": "Share", "sharePercent": 50, "models": ["A100"]},
        "placement": "Spread",
        "priorityClassName": "urgent",
    }
    status = {
        "preemptions": 2,
        "restarts": 1,
        "profile": {
            "persistentBytes": 5,
            "ephemeralBytes": 6,
            "iterationMicroseconds": 250_000,
            "dataMicroseconds": 50_000,
            "modelBytes": 8,
            "largestTensorBytes": 2,
        },
    }
    urgent = {"kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 7}
    job = a_record("a", created=0.25, started=3, ended=20, executed=15.5, spec=spec, status=status)
    records = read_records(written(tmp_path, job, urgent, GPU_NODE))
    (record,) = records.jobs
    assert record.job.key == "team/a"
    assert record.job.demand == Demand(
        2,
        share_percent=50,
        models=frozenset({"A100"}),
        max_slowdown_ratio=0.2,
        mode=PlacementMode.SPREAD,
        requests=HostResources.of({"pods": 1}),
    )
    assert (record.job.duration_seconds, record.job.priority) == (15.5, 7)
    assert record.job.profile == Profile(5, 6, 0.3, 8, 2, StageSeconds(0.0, 0.0, 0.25, 0.0))
    assert (record.preemptions, record.restarts) == (2, 1)
    assert record.job.submit_seconds == 0, "times count from the first submission"
    assert record.jct_seconds == pytest.approx(19.75), "the operator saw it 0.25 s after the second began"
    ((gpu,),) = (node.gpus for node in records.nodes)
    assert (gpu.uuid, gpu.model, gpu.allocatable_bytes) == ("GPU-1", "A100", 85584773120)


def test_a_simulation_that_knows_the_cost_of_a_start_is_exact(tmp_path: Path) -> None:
    records = read_records(written(tmp_path, *ONE_AFTER_THE_OTHER))
    costs = costs_as_recorded(records, FREE, [])
    assert costs.start_seconds == pytest.approx(2.0), "the soonest start after a submission"
    simulation = simulated(*(record.job for record in records.jobs), costs=costs, order="fifo")
    found = compare(records, simulation, policy="fifo", placement="best-fit", costs=costs)
    assert found.jobs == 2
    assert found.average_jct_error_percent == pytest.approx(0)
    assert found.makespan_error_percent == pytest.approx(0)
    assert found.recorded_makespan_seconds == pytest.approx(34)


def test_errors_are_reported_by_job_and_in_total(tmp_path: Path) -> None:
    records = read_records(written(tmp_path, *ONE_AFTER_THE_OTHER))
    simulation = simulated(*(record.job for record in records.jobs), costs=FREE, order="fifo")
    found = compare(records, simulation, policy="fifo", placement="best-fit", costs=FREE)
    recorded, predicted = (12 + 33.25) / 2, (10 + 29.25) / 2
    assert found.average_jct_error_percent == pytest.approx(100 * (predicted - recorded) / recorded)
    assert found.makespan_error_percent == pytest.approx(100 * (30 - 34) / 34)
    assert [job.job for job in found.worst] == ["team/b", "team/a"]
    assert found.worst[0].error_seconds == pytest.approx(-4)
    assert found.worst[0].predicted_start_seconds == pytest.approx(10 - 0.75)


def test_events_give_the_time_of_starts_and_restarts(tmp_path: Path) -> None:
    events = [
        an_event("a", "Placed", 0.5),
        an_event("a", "Started", 3.5),
        an_event("a", "Placed", 10),
        an_event("a", "Started", 17),
        an_event("b", "Placed", 20),
        an_event("b", "Started", 21),
    ]
    records = read_records(written(tmp_path, *ONE_AFTER_THE_OTHER, *events))
    assert (records.start_seconds, records.restart_seconds) == (2, 7)
    costs = costs_as_recorded(records, Costs(), ["restart_seconds"])
    assert (costs.start_seconds, costs.restart_seconds) == (2, 30), "what somebody has chosen stays"
    assert costs_as_recorded(records, Costs(), []).restart_seconds == 7


def test_jobs_that_cannot_be_replayed_are_counted_by_reason(tmp_path: Path) -> None:
    records = read_records(
        written(
            tmp_path,
            *ONE_AFTER_THE_OTHER,
            a_record("runs", created=1, started=2, ended=None, executed=5),
            a_record("refused", created=1, started=None, ended=3, executed=0, how="Failed"),
            a_record("broken", created=1, started=2, ended=3, executed=1, spec={"workers": "two"}),
        )
    )
    assert records.skipped == {
        "it has not ended": 1,
        "it never ran": 1,
        "its spec or its status cannot be read": 1,
    }


@pytest.mark.parametrize(
    ("story", "text", "says"),
    [
        ("no JSON", "{", "is not valid JSON"),
        ("no list", "[]", "is not a list of objects: give the JSON of kubectl get trainingjobs"),
        ("no job", '{"items": []}', "has no TrainingJob that ended"),
    ],
)
def test_an_error_in_a_file_says_what_to_write(tmp_path: Path, story: str, text: str, says: str) -> None:
    path = tmp_path / "records.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=says):
        read_records(path)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the records"):
        read_records(tmp_path / "none.json")


def test_the_command_line_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, *ONE_AFTER_THE_OTHER, GPU_NODE)
    page = tmp_path / "page.html"
    assert (
        main(["replay", "--records", str(path), "--policy", "fifo", "--report", str(page)]) == exit_codes.OK
    )
    out = capsys.readouterr().out
    assert "2 jobs under fifo and best-fit; a start takes 2.0 s" in out
    assert "average JCT   22.6 s     22.6 s      +0.0 %" in out
    assert page.read_text(encoding="utf-8").count('class="plotly-graph-div"') == 4
    command = [
        "replay",
        "--records",
        str(path),
        "--policy",
        "fifo",
        "--option",
        "start_seconds=0",
        "-o",
        "json",
    ]
    assert main(command) == exit_codes.OK
    found = json.loads(capsys.readouterr().out)
    assert found["makespan_error_percent"] == pytest.approx(100 * (30 - 34) / 34)
    assert found["worst"][0]["error_seconds"] == pytest.approx(-4)


def test_the_command_line_needs_the_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, *ONE_AFTER_THE_OTHER)
    assert main(["replay", "--records", str(path)]) == exit_codes.USAGE
    assert "has no GPUNodes with GPUs: describe the cluster with --nodes" in capsys.readouterr().err
    assert main(["replay", "--records", str(path), "--nodes", "1x1"]) == exit_codes.OK
