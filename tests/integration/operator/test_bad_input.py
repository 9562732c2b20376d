"""Objects that the operator cannot act on: each gets a message, and none stops other jobs."""

from __future__ import annotations

import pytest
from laneway.operator.watch.apiserver import ApiError, Raw

from tests.support.operator.operator_process import OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until


async def test_an_unknown_priority_class_is_named_with_those_that_there_are(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1")
    known = await cluster.add_priority_class("known", 5)
    await cluster.submit("odd", priorityClassName="no-such-class")

    async def listed() -> Raw | None:
        # Classes and jobs have watches of their own, so the operator may see the job first.
        accepted = await cluster.condition("odd", "Accepted")
        return accepted if known in accepted.get("message", "") else None

    accepted = await until("the class that there is is named", listed)
    assert (accepted["status"], accepted["reason"]) == ("False", "UnknownPriorityClass")
    assert "no-such-class" in accepted["message"]
    await cluster.submit("fine")
    await cluster.until_pods("fine", 1)

    await cluster.delete_job("fine")
    await cluster.change("odd", {"priorityClassName": known})
    await cluster.until_condition("odd", "Accepted")


async def test_a_malformed_template_is_refused_at_once_with_the_field(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1")
    container = {"name": "trainer", "image": "example.invalid/x", "env": "DEBUG=1"}
    with pytest.raises(
        ApiError, match=r"spec\.template\.spec\.containers\[0\]\.env in body must be of type array"
    ):
        await cluster.submit("garbled", template={"spec": {"containers": [container]}})
    await cluster.submit("fine")
    await cluster.until_pods("fine", 1)


async def test_a_template_that_the_api_server_would_refuse_is_told_while_the_job_waits(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1")
    await cluster.submit("first")
    await cluster.run_all("first", 1)
    await cluster.until_condition("first", "Running")
    container = {"name": "trainer", "image": "example.invalid/x", "imagePullPolicy": "Sometimes"}
    await cluster.submit("wrong", template={"spec": {"containers": [container]}})
    refused = await cluster.until_condition("wrong", "Accepted", "False", reason="InvalidTemplate")
    assert "imagePullPolicy" in refused["message"]
    assert await cluster.pods("wrong") == [], "it was only tried"
    await cluster.until_waiting("wrong", "InvalidTemplate")

    container["imagePullPolicy"] = "Never"
    await cluster.change("wrong", {"template": {"spec": {"containers": [container]}}})
    await cluster.until_condition("wrong", "Accepted")
    await cluster.until_waiting("wrong", "GPUsBusy")


async def test_a_template_that_sets_a_reserved_variable_gets_no_gpu_although_one_is_free(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1")
    container = {
        "name": "trainer",
        "image": "example.invalid/x",
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
    }
    await cluster.submit("wrong", template={"spec": {"containers": [container]}})
    waiting = await cluster.until_waiting("wrong", "InvalidTemplate")
    assert "template.spec.containers[0].env sets NVIDIA_VISIBLE_DEVICES" in waiting["message"]
    assert await cluster.pods("wrong") == []

    await cluster.change("wrong", {"template": {"spec": {"containers": [{**container, "env": []}]}}})
    await cluster.until_pods("wrong", 1)
