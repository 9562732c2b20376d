"""Workers that have lost their job or their owner reference, on an API server with Kubernetes' own garbage collector."""

from __future__ import annotations

from laneway.api import names
from laneway.operator.state.resources import PODS, TRAINING_JOBS
from laneway.operator.watch.apiserver import Raw

from tests.support.operator.operator_process import OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until

MERGE_PATCH = "application/merge-patch+json"


async def _running_gang(cluster: PlayedCluster, name: str) -> list[Raw]:
    await cluster.submit(name, workers=2)
    pods = await cluster.run_all(name, 2, attempt=1)
    await cluster.until_condition(name, "Running")
    return pods


async def _delete_without_workers(cluster: PlayedCluster, name: str) -> None:
    path = TRAINING_JOBS.path(cluster.namespace, name)
    await cluster.api.request("DELETE", path, body={"propagationPolicy": "Orphan"})

    async def gone() -> bool:
        jobs = (await cluster.api.request("GET", TRAINING_JOBS.path(cluster.namespace)))["items"]
        return not jobs

    await until("the job is gone, without its workers", gone)


async def test_a_worker_that_lost_its_owner_is_adopted_goes_on_and_ends_with_its_job(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=2)
    first, second = await _running_gang(cluster, "gang")
    path, nobody = PODS.path(cluster.namespace, "gang-1"), {"metadata": {"ownerReferences": None}}
    await cluster.api.request("PATCH", path, body=nobody, content_type=MERGE_PATCH)

    async def adopted() -> Raw | None:
        metadata: Raw = (await cluster.api.request("GET", path))["metadata"]
        return metadata if metadata.get("ownerReferences") else None

    metadata = await until("the worker has its owner back", adopted)
    assert metadata["uid"] == second["metadata"]["uid"], "it is the same pod"
    assert metadata["ownerReferences"] == first["metadata"]["ownerReferences"]
    status = (await cluster.job("gang"))["status"]
    assert (status["attempt"], status["restarts"]) == (1, 0)
    await cluster.delete_job("gang")
    await cluster.until_leaving("gang", 2)


async def test_a_worker_whose_job_is_gone_for_good_is_deleted_with_its_grace_period(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    """The job goes while no operator is there: one that sees a deletion under way ends the workers itself."""
    await cluster.add_node("n1")
    await cluster.submit("alone", preemption={"gracePeriodSeconds": 45})
    (pod,) = await cluster.run_all("alone", 1, attempt=1)
    await cluster.until_condition("alone", "Running")
    operator.stop()
    await _delete_without_workers(cluster, "alone")
    operator.start()

    async def leaving() -> Raw | None:
        metadata: Raw = (await cluster.pods("alone"))[0]["metadata"]
        return metadata if "deletionTimestamp" in metadata else None

    metadata = await until("the worker is told to end", leaving)
    assert metadata["uid"] == pod["metadata"]["uid"]
    assert metadata["deletionGracePeriodSeconds"] == 45
    assert not metadata.get("ownerReferences"), "so the garbage collector did not do it"


async def test_a_job_created_anew_after_its_workers_were_orphaned_takes_none_of_them_and_gets_its_own(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    """Another controller's pod with our labels is left alone all the while."""
    await cluster.add_node("n1", gpus=2)
    orphaned = await _running_gang(cluster, "gang")
    copied = {
        "metadata": {
            "name": "copied",
            "labels": orphaned[0]["metadata"]["labels"],
            # One that is there: else the garbage collector would take the pod away.
            "ownerReferences": [await _node_as_owner(cluster)],
        },
        "spec": {
            "containers": [{"name": "x", "image": "example.invalid/x"}],
            "automountServiceAccountToken": False,
        },
    }
    await cluster.api.request("POST", PODS.path(cluster.namespace), body=copied)

    await _delete_without_workers(cluster, "gang")
    await cluster.submit("gang", workers=2)
    before = {pod["metadata"]["uid"] for pod in orphaned}

    async def replaced() -> list[Raw] | None:
        await cluster.let_go("gang")
        labelled = [pod for pod in await cluster.pods("gang") if pod["metadata"]["name"] != "copied"]
        uids = {pod["metadata"]["uid"] for pod in labelled}
        return labelled if len(uids) == 2 and not uids & before else None

    pods = await until("the job has workers of its own", replaced)
    uid = (await cluster.job("gang"))["metadata"]["uid"]
    assert {pod["metadata"]["labels"][names.JOB_UID_LABEL] for pod in pods} == {uid}
    stranger = await cluster.api.request("GET", PODS.path(cluster.namespace, "copied"))
    assert "deletionTimestamp" not in stranger["metadata"]


async def _node_as_owner(cluster: PlayedCluster) -> Raw:
    node = (await cluster.api.request("GET", f"/api/v1/nodes/{cluster.namespace}-n1"))["metadata"]
    return {"apiVersion": "v1", "kind": "Node", "name": node["name"], "uid": node["uid"], "controller": True}


async def test_a_worker_that_lost_its_labels_makes_room_for_another(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=2)
    pods = await _running_gang(cluster, "gang")
    path, bare = PODS.path(cluster.namespace, "gang-1"), {"metadata": {"labels": None}}
    await cluster.api.request("PATCH", path, body=bare, content_type=MERGE_PATCH)
    await cluster.until_leaving("gang", 1)  # the gang is no longer whole, so it starts again

    async def in_the_way() -> bool:
        found = (await cluster.api.request("GET", path))["metadata"]
        return found["uid"] == pods[1]["metadata"]["uid"] and "deletionTimestamp" in found

    await until("the pod is told to end", in_the_way)
    await cluster.take_away(pods[1])

    async def whole() -> bool:
        return len(await cluster.pods("gang")) == 2

    await until("both workers are there again", whole)
    assert (await cluster.job("gang"))["status"]["restarts"] == 0
