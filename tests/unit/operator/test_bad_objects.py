"""Objects that got past the API server and make no sense."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.operator.records.gpu_node_record import parse_gpu_node
from laneway.operator.records.job_record import parse_job

from tests.unit.operator.builders import a_gpu_node, a_job, a_view, decided, gpu_uuid


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"gpus": {}}, "gpus has 0 of perWorker, share and memory"),
        ({"gpus": {"perWorker": 1, "memory": "1Gi"}}, "gpus has 2 of"),
        ({"gpus": {"share": 0}}, "share_percent is 0"),
        ({"gpus": {"share": 300}}, "share_percent is 300"),
        ({"gpus": {"perWorker": 0}}, "gpus_per_worker is 0"),
        ({"gpus": {"memory": "much"}}, "'much' is not a quantity"),
        ({"workers": 0}, "workers is 0"),
        ({"sharing": "Exclusive", "gpus": {"share": 50}}, "write gpus.perWorker"),
        ({"sharing": "Sometimes"}, "sharing"),
        ({"tempalte": {}}, "tempalte"),
        ({"template": {"spec": {"containers": []}}}, "containers is empty"),
        ({"template": {"spec": {"containers": ["x"]}}}, "template.spec.containers[0] is 'x': write a mapping"),
        ({"template": {"spec": {"containers": [{"name": 5}]}}}, "template.spec.containers[0].name is 5: write a text"),
        ({"template": {"spec": {"containers": [{"name": "c", "env": [{"value": "x"}]}]}}}, "env[0] has no name"),
        ({"template": {"spec": {"containers": [{"name": "c"}], "nodeSelector": "ssd"}}}, "nodeSelector is 'ssd': write a mapping"),
        ({"template": {"spec": {"containers": [{"name": "c"}], "tolerations": {}}}}, "tolerations is {}: write a list"),
        ({"template": {"metadata": {"labels": []}, "spec": {"containers": [{"name": "c"}]}}}, "labels is []: write a mapping"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_spec_becomes_a_sentence(spec: dict[str, Any], want: str) -> None:
    record = a_job().spec(**spec).record
    assert record.wish is None
    assert want in record.problem


def test_no_spec_at_all() -> None:
    raw = a_job().raw
    del raw["spec"]
    assert parse_job(raw).wish is None


@pytest.mark.parametrize(("field", "value"), [("attempt", "many"), ("attainedService", "much")])
def test_a_status_that_somebody_spoiled_is_named_and_not_written_over(
    field: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    raw = a_job().visited().raw
    raw["status"][field] = value
    record = parse_job(raw)
    assert value in caplog.records[0].problem  # type: ignore[attr-defined]
    view = a_view([record, a_job("other").record], gpu_nodes=[a_gpu_node("n1")])
    assert [each.job.name for each in decided(view).statements] == ["other"]


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
