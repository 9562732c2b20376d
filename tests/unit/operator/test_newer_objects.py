"""Objects with fields or values of a newer release of v1alpha1: docs/api-versions.md lets these be added."""

from __future__ import annotations

import json
from typing import Any

import pytest
from laneway.api.gpu_node import GPUNodeSpec
from laneway.operator.lifecycle.pausing import pause_action
from laneway.operator.state.records.gpu_node_record import parse_gpu_node
from laneway.operator.state.records.job_record import parse_job
from laneway.scheduling import PreemptionAction

from tests.unit.operator.builders import a_job

GPU = {
    "uuid": "GPU-1",
    "index": 0,
    "model": "H100",
    "memoryBytes": 1 << 34,
    "allocatableBytes": 1 << 34,
    "allocatablePercent": 100,
    "healthy": True,
}
KEY = "k:" + json.dumps({"podUID": "u1"})
ORDERS = [
    {"podUID": "u1", "order": "Pause", "reason": "", "untilTime": "2026-01-31T12:00:00Z"},
    {"podUID": "u1", "order": "Checkpoint", "reason": ""},
]


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_of_a_newer_operator_does_not_hide_the_node(order: dict[str, Any]) -> None:
    """parse_gpu_node: "A wrong one is noted in ``problem``, never raised"."""
    owner = {
        "manager": "laneway-operator",
        "operation": "Apply",
        "fieldsV1": {"f:spec": {"f:orders": {KEY: {}}}},
    }
    raw = {
        "metadata": {"name": "n1", "uid": "x", "resourceVersion": "1", "managedFields": [owner]},
        "spec": {"orders": [order]},
        "status": {"gpus": [GPU]},
    }
    assert [gpu.uuid for gpu in parse_gpu_node(raw).gpus] == ["GPU-1"]


def test_an_agent_follows_orders_with_a_field_of_a_newer_operator() -> None:
    assert GPUNodeSpec.model_validate({"orders": ORDERS[:1]}).orders[0].order == "Pause"


def test_a_job_with_a_field_of_a_newer_crd_is_accepted() -> None:
    raw = {
        "metadata": {
            "namespace": "d",
            "name": "j",
            "uid": "u",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-31T12:00:00Z",
        },
        "spec": {
            "gpus": {"type": "Share", "sharePercent": 50},
            "template": {"spec": {"containers": [{"name": "trainer", "image": "i"}]}},
            "tuning": "Auto",  # optional with a default: the API server shows it in every job once the CRD has it
        },
    }
    assert parse_job(raw).problem == ""


def test_a_preemption_of_a_newer_operator_goes_on_as_a_pause() -> None:
    """After a roll-back: a job whose status cannot be read is left alone for ever, with its GPUs."""
    raw = a_job().placed("n1").running().raw
    preemption = {"action": "Snapshot", "since": "2026-01-31T12:00:00Z"}
    raw["status"] |= {"preemption": preemption, "lastPreemption": preemption}
    raw["status"]["conditions"][0]["status"] = "Newer"
    read = parse_job(raw)
    assert (read.problem, read.malformed_status) == ("", False)
    assert pause_action(read.status) is PreemptionAction.PAUSE


@pytest.mark.parametrize("state", ["Restoring", {"phase": "Restoring"}])
def test_a_session_state_of_a_newer_agent_does_not_hide_the_gpus(state: object) -> None:
    session = {
        "key": "k",
        "namespace": "d",
        "pod": "p",
        "container": "c",
        "sharePercent": 50,
        "quotaBytes": 1,
        "state": state,
    }
    record = parse_gpu_node(
        {"metadata": {"name": "n1"}, "status": {"gpus": [{**GPU, "sessions": [session]}]}}
    )
    assert [gpu.uuid for gpu in record.gpus] == ["GPU-1"]
