"""The plugin process with a real API server: what the operator chose, and whom a container belongs to."""

from __future__ import annotations

import asyncio
import json
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from laneway.api import names
from laneway.api.device_ids import shares_of
from laneway.device_plugin.pod_api import NodeAPI, configuration

from hack.cluster.control_plane import LoopbackControlPlane
from tests.integration.device_plugin.kubelet_side import KubeletSide
from tests.integration.device_plugin.plugin_process import PluginNode, wait_until
from tests.integration.device_plugin.rights import RIGHTS
from tests.support.device_plugin.builders import gpu, inventory, labels_of_worker, owner_of_worker, raw_job


class Cluster:
    """The API server with a namespace and a node name of the test's own."""

    def __init__(self, plane: LoopbackControlPlane) -> None:
        self.plane = plane
        self.namespace = f"plugin-{uuid.uuid4().hex[:8]}"
        self.node = f"node-{uuid.uuid4().hex[:8]}"
        self.kubectl("create", "namespace", self.namespace)
        self.kubectl("apply", "--server-side", "-f", "-", given=RIGHTS)
        # Pods name the account "default", which a controller makes a little after the namespace.
        wait_until(
            lambda: "default" in self.kubectl("get", "serviceaccounts", "-o", "name", "-n", self.namespace),
            "the service account is there",
        )

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        command = [str(self.plane.kubectl), "--kubeconfig", str(self.plane.kubeconfig), *arguments]
        return subprocess.run(command, check=True, input=given, text=True, stdout=subprocess.PIPE).stdout

    def job(self, name: str) -> str:
        """Return the uid of a TrainingJob, which is made if it does not exist."""
        job = json.dumps(raw_job(name))
        made = self.kubectl("apply", "-o", "json", "-n", self.namespace, "-f", "-", given=job)
        uid: str = json.loads(made)["metadata"]["uid"]
        return uid

    def create_worker(
        self, name: str, size: int, gpus: str, attempt: int = 1, annotations: dict[str, str] | None = None
    ) -> str:
        """Create the worker of this name (JOB-RANK) as the operator does; return its uid."""
        job_uid = self.job(name.rpartition("-")[0])
        return self.create(
            name,
            size,
            labels=labels_of_worker(name, job_uid, attempt),
            annotations={**(annotations or {}), names.GPUS_ANNOTATION: gpus},
            ownerReferences=[owner_of_worker(name, job_uid)],
        )

    def create(
        self,
        name: str,
        size: int,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        **metadata: Any,
    ) -> str:
        """Create a pod on the node; return its uid."""
        resources = {"limits": {names.GPU_PERCENT: str(size)}}
        pod: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": labels or {},
                "annotations": annotations or {},
                **metadata,
            },
            "spec": {
                "nodeName": self.node,
                "containers": [{"name": "trainer", "image": "i", "resources": resources}],
            },
        }
        made = json.loads(self.kubectl("create", "-o", "json", "-f", "-", given=json.dumps(pod)))
        uid: str = made["metadata"]["uid"]
        return uid

    def delete(self, name: str) -> None:
        self.kubectl("delete", "pod", name, "-n", self.namespace, "--force", "--grace-period=0")


@pytest.fixture
def cluster(control_plane: LoopbackControlPlane) -> Iterator[Cluster]:
    made = Cluster(control_plane)
    try:
        yield made
    finally:
        made.kubectl("delete", "namespace", made.namespace, "--wait=false")


@pytest.fixture
def running(node: PluginNode, kubelet: KubeletSide, cluster: Cluster) -> PluginNode:
    """The plugin on a node with four GPUs."""
    node.node = cluster.node
    node.kubeconfig = cluster.plane.kubeconfig_for("test-device-plugin")
    node.write_inventory(
        inventory(*(gpu(index) for index in range(4))).model_copy(update={"node": cluster.node})
    )
    node.start()
    kubelet.wait_for_devices(400)
    return node


def requests(running: PluginNode) -> dict[str, str]:
    """Return what the pods of the node request that are no workers, as far as the plugin has seen them."""
    file = running.root / "pod-requests.json"
    found: dict[str, str] = json.loads(file.read_text())["requests"] if file.exists() else {}
    return found


def wait_until_seen(running: PluginNode, pods: int) -> None:
    """Wait until the plugin has seen so many pods that are no workers, and with them all that were created before."""
    wait_until(lambda: requests(running).get("pods") == str(pods), "the plugin has seen the pods")


def test_a_pod_of_this_node_is_read_and_one_of_another_node_is_not(cluster: Cluster) -> None:
    async def read(node: str) -> dict[str, Any] | None:
        chosen = await configuration(str(cluster.plane.kubeconfig_for("test-device-plugin")))
        assert chosen is not None
        api = NodeAPI(node, chosen)
        try:
            return await api.read_pod(cluster.namespace, "plain", timeout_seconds=20)
        finally:
            await api.close()

    assert asyncio.run(read(cluster.node)) is None
    uid = cluster.create("plain", 10)
    found = asyncio.run(read(cluster.node))
    assert found is not None
    assert found["metadata"]["uid"] == uid
    assert asyncio.run(read("another-node")) is None


def test_the_operators_choice_decides_the_gpu(
    running: PluginNode, kubelet: KubeletSide, cluster: Cluster
) -> None:
    """Pods of equal size, created together, each on the GPU chosen for it, in any order of admission."""
    chosen = {"a-0": 3, "a-1": 1, "b-0": 1, "c-0": 2}
    for name, index in chosen.items():
        cluster.create_worker(name, 50, f"GPU-{index}")

    for name in reversed(chosen):
        taken = kubelet.admit(name, 50, namespace=cluster.namespace)
        assert shares_of(taken) == {f"GPU-{chosen[name]}": 50}


def test_a_plain_pod_leaves_free_what_is_reserved_for_other_pods(
    running: PluginNode, kubelet: KubeletSide, cluster: Cluster
) -> None:
    for index in range(3):
        cluster.create_worker(f"worker-{index}", 60, f"GPU-{index}")
    cluster.create("plain", 60)
    wait_until_seen(running, 1)

    plain = kubelet.admit("plain", 60, namespace=cluster.namespace)
    workers = [kubelet.admit(f"worker-{index}", 60, namespace=cluster.namespace) for index in range(3)]

    assert shares_of(plain) == {"GPU-3": 60}
    assert [shares_of(taken) for taken in workers] == [{f"GPU-{index}": 60} for index in range(3)]


EXCLUSIVE = {names.SHARING_ANNOTATION: "Exclusive", names.SPANS_GPUS_ANNOTATION: "true"}


@pytest.mark.parametrize("forged", [False, True], ids=["annotations", "annotations and an owner"])
def test_one_percent_is_not_exclusive_use_of_a_gpu(
    running: PluginNode, kubelet: KubeletSide, cluster: Cluster, forged: bool
) -> None:
    """The pod's author writes what only the operator should; the GPU stays shared, and the job of 90 percent gets its part."""
    claims = EXCLUSIVE | {names.GPUS_ANNOTATION: "GPU-2"}
    cluster.create_worker("job-0", 90, "GPU-2")
    if forged:
        cluster.create_worker("greedy-0", 1, "GPU-2", annotations=claims)
    else:
        cluster.create("greedy-0", 1, annotations=claims)
    greedy = kubelet.admit("greedy-0", 1, namespace=cluster.namespace)
    assert shares_of(kubelet.admit("job-0", 90, namespace=cluster.namespace)) == {"GPU-2": 90}
    running.open_socket(greedy)
    kubelet.start(greedy)

    record = running.record(greedy)
    assert record is not None
    assert record["sharing"] == "Lanes"
    assert record["spans_gpus"] is forged, "a worker of a gang"


def test_a_plain_pods_choice_takes_no_capacity_that_is_reserved_for_others(
    running: PluginNode, kubelet: KubeletSide, cluster: Cluster
) -> None:
    cluster.create_worker("worker-0", 60, "GPU-0")
    cluster.create("greedy", 60, annotations={names.GPUS_ANNOTATION: "GPU-0"})
    wait_until_seen(running, 1)

    greedy = kubelet.admit("greedy", 60, namespace=cluster.namespace)

    assert shares_of(greedy) == {"GPU-1": 60}
    assert shares_of(kubelet.admit("worker-0", 60, namespace=cluster.namespace)) == {"GPU-0": 60}


def test_a_worker_with_all_ids_of_its_gpu_uses_it_exclusively(
    running: PluginNode, kubelet: KubeletSide, cluster: Cluster
) -> None:
    cluster.create_worker("alone-0", 100, "GPU-2", annotations=EXCLUSIVE)
    taken = kubelet.admit("alone-0", 100, namespace=cluster.namespace)
    running.open_socket(taken)
    kubelet.start(taken)
    record = running.record(taken)
    assert record is not None
    assert record["sharing"] == "Exclusive"


def test_a_container_is_named_with_its_job(
    running: PluginNode, kubelet: KubeletSide, cluster: Cluster
) -> None:
    first = cluster.create_worker("digits-1", 50, "GPU-2")
    taken = kubelet.admit("digits-1", 50, namespace=cluster.namespace)
    running.open_socket(taken)
    kubelet.start(taken)
    record = running.record(taken)
    assert record is not None
    assert (record["pod_uid"], record["job"], record["rank"], record["attempt"]) == (first, "digits", 1, 1)

    # The next attempt has the same name and gets the same ids.
    cluster.delete("digits-1")
    kubelet.end("digits-1")
    second = cluster.create_worker("digits-1", 50, "GPU-2", attempt=2)
    again = kubelet.admit("digits-1", 50, namespace=cluster.namespace)
    assert again == taken
    running.open_socket(again)
    kubelet.start(again)
    record = running.record(again)
    assert record is not None
    assert (record["pod_uid"], record["attempt"]) == (second, 2)


def test_without_the_api_server_the_last_view_serves_and_names_are_filled_in_later(
    running: PluginNode, kubelet: KubeletSide, cluster: Cluster
) -> None:
    cluster.create_worker("known-0", 50, "GPU-3")
    taken = kubelet.admit("known-0", 50, namespace=cluster.namespace)
    kubelet.end("known-0")
    unseen = cluster.create("unseen", 20)
    cluster.delete("unseen")
    cluster.plane.kill("kube-apiserver")
    try:
        assert kubelet.admit("known-0", 50, namespace=cluster.namespace) == taken
        running.open_socket(taken)
        kubelet.start(taken)  # this pod is known, and demands nothing
        other = kubelet.admit("not-known", 30, namespace=cluster.namespace)
        running.open_socket(other)
        with pytest.raises(grpc.RpcError) as raised:
            kubelet.start(other)
        assert raised.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert f"pod {cluster.namespace}/not-known is not known" in raised.value.details()
        record = running.record(other)
        assert record is not None
        assert (record["pod"], record["pod_uid"], record["job"]) == ("not-known", "", None)
    finally:
        cluster.plane.start("kube-apiserver")
    uid = cluster.create("not-known", 30)
    assert uid != unseen
    wait_until(lambda: (running.record(other) or {}).get("pod_uid") == uid, "the record is filled in", 60)
    kubelet.start(other)


def test_a_container_restarts_without_the_api_server_as_its_record_says(
    running: PluginNode, kubelet: KubeletSide, cluster: Cluster
) -> None:
    """A plugin that starts during the outage has seen no pods; the records are still there."""
    annotations = {names.MINIMUM_ENFORCEMENT_ANNOTATION: "Cooperative"}
    cluster.create("runs", 50, annotations=annotations)
    taken = kubelet.admit("runs", 50, namespace=cluster.namespace)
    running.open_socket(taken)
    kubelet.start(taken)
    cluster.plane.kill("kube-apiserver")
    try:
        running.kill()
        with kubelet.changed:
            kubelet.changed.wait_for(lambda: not kubelet.healthy, 60)
        running.start()
        kubelet.wait_for_devices(400)
        kubelet.start(taken)
        weaker = inventory(*(gpu(index, enforcement="None") for index in range(4)))
        running.write_inventory(weaker.model_copy(update={"node": cluster.node}))
        wait_until(lambda: not starts(kubelet, taken), "the demand in the record holds")
    finally:
        cluster.plane.start("kube-apiserver")


def test_a_restarted_plugin_knows_the_operators_choice(
    running: PluginNode, kubelet: KubeletSide, cluster: Cluster
) -> None:
    """The kubelet asks at once, when the plugin may not have listed the pods yet; so it reads this pod by name."""
    cluster.create_worker("a-0", 50, "GPU-2")
    running.kill()
    with kubelet.changed:
        kubelet.changed.wait_for(lambda: not kubelet.healthy, 60)
    running.start()
    kubelet.wait_for_devices(400)

    assert shares_of(kubelet.admit("a-0", 50, namespace=cluster.namespace)) == {"GPU-2": 50}


def test_a_pod_does_not_start_below_the_enforcement_that_it_demands(
    running: PluginNode, kubelet: KubeletSide, cluster: Cluster
) -> None:
    """The kubelet retries, so the container starts once its GPU has the demanded level."""
    annotations = {names.MINIMUM_ENFORCEMENT_ANNOTATION: "Watchdog"}
    cluster.create_worker("strict-0", 50, "GPU-1", annotations=annotations)
    taken = kubelet.admit("strict-0", 50, namespace=cluster.namespace)
    running.open_socket(taken)

    with pytest.raises(grpc.RpcError) as raised:
        kubelet.start(taken)
    assert raised.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    for said in (
        "GPU-1",
        cluster.node,
        "'Watchdog'",
        "'Cooperative'",
        "enforcement.level",
        "Lower the annotation",
    ):
        assert said in raised.value.details()
    record = running.record(taken)
    assert record is not None
    assert record["minimum_enforcement"] == "Watchdog"

    held = {"enforcement": "Watchdog", "enforcement_reason": "no MPS: a simulated GPU has no MPS"}
    running.write_inventory(
        inventory(*(gpu(index, **held) for index in range(4))).model_copy(update={"node": cluster.node})
    )
    wait_until(lambda: starts(kubelet, taken), "it starts")

    cluster.create("misspelt", 20, annotations={names.MINIMUM_ENFORCEMENT_ANNOTATION: "watchdog"})
    other = kubelet.admit("misspelt", 20, namespace=cluster.namespace)
    with pytest.raises(grpc.RpcError) as raised:
        kubelet.start(other)
    assert (
        "'watchdog', which is no level: write one of Cooperative, Watchdog, Interposer, MPS"
        in raised.value.details()
    )


def test_a_container_that_demands_the_interposer_does_not_start_without_it(
    running: PluginNode, kubelet: KubeletSide, cluster: Cluster
) -> None:
    """It was allocated before its GPU had the level, and the kubelet never allocates it again."""

    def interposed(enforcement: str, *, interposer: bool) -> None:
        held = [gpu(index, enforcement=enforcement, interposer=interposer) for index in range(4)]
        running.write_inventory(inventory(*held).model_copy(update={"node": cluster.node}))

    annotations = {names.MINIMUM_ENFORCEMENT_ANNOTATION: "Interposer"}
    cluster.create("early", 50, annotations=annotations)
    early = kubelet.admit("early", 50, namespace=cluster.namespace)
    running.open_socket(early)
    interposed("Interposer", interposer=True)

    def refusal() -> str:
        with pytest.raises(grpc.RpcError) as raised:
            kubelet.start(early)
        return raised.value.details() or ""

    wait_until(lambda: "was allocated without the memory interposer" in refusal(), "it is refused")
    record = running.record(early)
    assert record is not None
    assert record["interposer"] is False

    cluster.create("late", 50, annotations=annotations)
    late = kubelet.admit("late", 50, namespace=cluster.namespace)
    running.open_socket(late)
    kubelet.start(late)
    record = running.record(late)
    assert record is not None
    assert record["interposer"] is True
    interposed("MPS", interposer=True)
    wait_until(lambda: starts(kubelet, early), "it starts where MPS holds it")


def starts(kubelet: KubeletSide, taken: tuple[str, ...]) -> bool:
    """Whether the plugin lets a container start."""
    try:
        kubelet.start(taken)
    except grpc.RpcError:
        return False
    return True


def test_what_other_pods_request_is_summed_for_the_agent(running: PluginNode, cluster: Cluster) -> None:
    """By the API server's defaults: a limit is a request, and the pod's own request counts in place of its containers'."""

    def create(name: str, metadata: dict[str, Any], **spec: Any) -> None:
        metadata = {"name": name, "namespace": cluster.namespace, **metadata}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        cluster.kubectl(
            "create", "-f", "-", given=json.dumps({**pod, "spec": {"nodeName": cluster.node, **spec}})
        )

    def asking(**resources: dict[str, str]) -> dict[str, Any]:
        return {"name": "c", "image": "i", "resources": resources}

    sidecar = {**asking(requests={"cpu": "250m"}), "name": "s", "restartPolicy": "Always"}
    limited = asking(limits={"cpu": "1", "memory": "1Gi"})
    create("plain", {}, containers=[limited], initContainers=[sidecar])
    uid = cluster.job("j")
    worker = {"labels": labels_of_worker("j-0", uid), "ownerReferences": [owner_of_worker("j-0", uid)]}
    create("j-0", worker, containers=[asking(requests={"cpu": "7"})])
    first = {"cpu": "1250m", "memory": str(2**30), "pods": "1"}
    wait_until(lambda: requests(running) == first, "the plain pod is counted, the worker is not")
    whole = {"requests": {"cpu": "3"}}
    create("whole", {}, containers=[asking(requests={"cpu": "1"})], resources=whole)
    wait_until(
        lambda: requests(running) == {**first, "cpu": "4250m", "pods": "2"},
        "the pod's own request is counted",
    )

    ended = json.dumps({"status": {"phase": "Succeeded"}})
    name = ("pod", "plain", "-n", cluster.namespace)
    cluster.kubectl("patch", *name, "--subresource=status", "--type=merge", "-p", ended)
    wait_until(
        lambda: requests(running) == {"cpu": "3000m", "pods": "1"}, "a pod that ended requests nothing"
    )
    cluster.delete("whole")
    wait_until(lambda: requests(running) == {}, "nothing is left")
