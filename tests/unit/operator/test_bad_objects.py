"""Objects that got past the API server and make no sense."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.operator.state.records.gpu_node_record import parse_gpu_node
from laneway.operator.state.records.job_record import parse_job

from tests.unit.operator.builders import a_gpu_node, a_job, a_view, decided, gpu_uuid


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"gpus": {"type": "Share"}}, "type Share needs sharePercent and no other amount (found none)"),
        ({"gpus": {"type": "Count", "count": 1, "memory": "1Gi"}}, "type Count needs count and no other amount (found count, memory)"),
        ({"gpus": {"type": "Share", "sharePercent": 0}}, "gpus.sharePercent: Input should be greater than or equal to 1 (found 0)"),
        ({"gpus": {"type": "Share", "sharePercent": 300}}, "gpus.sharePercent: Input should be less than or equal to 100 (found 300)"),
        ({"gpus": {"type": "Count", "count": 0}}, "gpus.count: Input should be greater than or equal to 1 (found 0)"),
        ({"gpus": {"type": "Memory", "memory": "much"}}, "'much' is not a quantity"),
        ({"workers": 0}, "workers: Input should be greater than or equal to 1 (found 0)"),
        ({"sharing": "Exclusive", "gpus": {"type": "Share", "sharePercent": 50}}, "set gpus.type to Count"),
        ({"sharing": "Sometimes"}, "sharing"),
        ({"template": {"spec": {"containers": []}}}, "containers is empty"),
        ({"template": {"spec": {"containers": ["x"]}}}, "template.spec.containers[0] is 'x': write a mapping"),
        ({"template": {"spec": {"containers": [{"name": 5}]}}}, "template.spec.containers[0].name is 5: write a text"),
        ({"template": {"spec": {"containers": [{"name": "c", "env": [{"value": "x"}]}]}}}, "env[0] has no name"),
        ({"template": {"spec": {"containers": [{"name": "c"}], "nodeSelector": "ssd"}}}, "nodeSelector is 'ssd': write a mapping"),
        ({"template": {"spec": {"containers": [{"name": "c"}], "tolerations": {}}}}, "tolerations is {}: write a list"),
        ({"template": {"spec": {"containers": [{"name": "c"}], "terminationGracePeriodSeconds": "9"}}}, "is '9': write a whole number"),
        ({"template": {"spec": {"containers": [{"name": "c", "resources": {"requests": "8"}}]}}}, "requests is '8': write a mapping"),
        ({"template": {"spec": {"containers": [{"name": "c"}], "initContainers": "i"}}}, "initContainers is 'i': write a list"),
        ({"template": {"spec": {"containers": [{"name": "c"}], "initContainers": [{"resources": 8}]}}}, "resources is 8: write a mapping"),
        ({"template": {"spec": {"containers": [{"name": "c"}], "resources": "8"}}}, "resources is '8': write a mapping"),
        ({"template": {"spec": {"containers": [{"name": "c"}], "overhead": "8"}}}, "overhead is '8': write a mapping"),
        ({"template": {"metadata": {"labels": []}, "spec": {"containers": [{"name": "c"}]}}}, "labels is []: write a mapping"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_spec_becomes_a_sentence(spec: dict[str, Any], want: str) -> None:
    record = a_job().spec(**spec).record
    assert record.desired is None
    assert want in record.problem


def test_no_spec_at_all() -> None:
    raw = a_job().raw
    del raw["spec"]
    assert parse_job(raw).desired is None


@pytest.mark.parametrize(
    ("field", "value"), [("attempt", "many"), ("attainedServiceGPUMilliseconds", "much")]
)
def test_a_status_that_somebody_spoiled_is_named_and_not_written_over(
    field: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    raw = a_job().visited().raw
    raw["status"][field] = value
    record = parse_job(raw)
    assert value in caplog.records[0].problem  # type: ignore[attr-defined]
    view = a_view([record, a_job("other").record], gpu_nodes=[a_gpu_node("n1")])
    assert [each.job.name for each in decided(view).writes] == ["other"]


YESTERDAY = {"lastTransitionTime": "yesterday"}


@pytest.mark.parametrize(
    "part",
    [
        {"waiting": {"reason": "GPUsBusy", "message": "", "since": "yesterday"}},
        {"waiting": {"reason": "GPUsBusy", "message": "", "estimatedStart": "tomorrow"}},
        {
            "conditions": [
                {"type": "Placed", "status": "False", "reason": "WorkerFailed", "message": "", **YESTERDAY}
            ]
        },
        {"avoid": [{"node": "n1", "until": "tomorrow"}]},
        {"failures": [{"node": "n1", "count": 1, "last": "yesterday"}]},
        {"preemption": {"action": "Evict", "since": "yesterday"}},
        {"preemption": {"action": "Pause", "since": "2026-01-31T12:00:00Z", "reachedAt": ""}},
        {"progress": {"remainingSeconds": 5, "updatedAt": "yesterday"}},
        {"serviceCountedAt": "9999-12-31T23:59:59-12:00"},
        {"startTime": "2026-01-31T12:00:00"},
        {"completionTime": "yesterday"},
    ],
    ids="-".join,
)
def test_a_status_with_a_time_that_is_none_stops_no_other_job(
    part: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    raw = a_job().placed("n1").running().raw
    raw["status"] |= part
    record = parse_job(raw)
    assert record.malformed_status
    assert "not a time; write one such as" in caplog.records[0].problem  # type: ignore[attr-defined]
    view = a_view([record, a_job("other").record], gpu_nodes=[a_gpu_node("n1")])
    assert [each.job.name for each in decided(view).writes] == ["other"]


def test_a_gpu_node_with_a_time_that_is_none_has_no_gpus() -> None:
    condition = {"type": "Ready", "status": "True", "reason": "Told", "message": "", **YESTERDAY}
    record = parse_gpu_node({"metadata": {"name": "n"}, "status": {"conditions": [condition]}})
    assert "lastTransitionTime" in record.refusal


@pytest.mark.parametrize(
    "gpus",
    [
        [{"uuid": "x"}],
        "none",
        [{"uuid": gpu_uuid("n", 0), "index": 0, "model": "m", "memoryBytes": -1, "allocatableBytes": 0,
          "allocatablePercent": 100, "healthy": True}],
        [{"uuid": "same", "index": i, "model": "m", "memoryBytes": 1, "allocatableBytes": 1,
          "allocatablePercent": 100, "healthy": True} for i in (0, 1)],
    ],
    ids=["fields missing", "not a list", "negative memory", "one GPU twice"],
)  # fmt: skip
def test_a_gpu_node_that_makes_no_sense_has_no_gpus_and_says_so(gpus: Any) -> None:
    record = parse_gpu_node({"metadata": {"name": "n"}, "status": {"gpus": gpus}})
    assert record.gpus == ()
    assert "gpus" in record.refusal
