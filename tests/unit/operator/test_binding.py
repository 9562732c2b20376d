"""Which gangs the operator binds itself, and what becomes of one that a kubelet refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from laneway.api.attempt_status import AttemptOutcome
from laneway.api.names import GPU_PERCENT
from laneway.operator.cycle.binding import needs_scheduler
from laneway.operator.execute.manifests import worker_pod
from laneway.operator.lifecycle import transitions
from laneway.operator.state.cluster_state import ClusterState
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import (
    NOW,
    JobBuilder,
    a_gpu_node,
    a_job,
    a_node,
    a_pod,
    a_view,
    decided,
    reconciled_job_of,
    write_of,
)

TRAINER: dict[str, Any] = {"name": "trainer", "image": "i"}
BINDS = OperatorConfig.model_validate({"bindPods": True})
KNOWN = {"cpu": 32_000, "memory": 2**39, "pods": 110, GPU_PERCENT: 400}


def trainer(**fields: Any) -> dict[str, Any]:
    return {"containers": [{**TRAINER, **fields}]}


def volume(**kind: Any) -> dict[str, Any]:
    return {"containers": [TRAINER], "volumes": [{"name": "data", **kind}]}


def requests(**amounts: str) -> dict[str, Any]:
    return trainer(
        resources={"requests": {name.replace("_", "/"): amount for name, amount in amounts.items()}}
    )


TERM = {"topologyKey": "zone", "labelSelector": {}}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"schedulerName": "volcano"}, id="another scheduler"),
        pytest.param({"schedulingGates": [{"name": "example.com/wait"}]}, id="a scheduling gate"),
        pytest.param({"schedulingGroup": {"podGroupName": "g"}}, id="a group of pods"),
        pytest.param({"topologySpreadConstraints": [{"maxSkew": 1}]}, id="topology spread"),
        pytest.param({"resourceClaims": [{"name": "c"}]}, id="a DRA claim"),
        pytest.param({"runtimeClassName": "kata"}, id="a runtime class, which may have an overhead"),
        pytest.param({"hostNetwork": True}, id="the network of the host"),
        pytest.param(
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
            id="affinity to pods",
        ),
        pytest.param(
            {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
            id="anti-affinity, if only preferred",
        ),
        pytest.param(volume(persistentVolumeClaim={"claimName": "c"}), id="a claim"),
        pytest.param(volume(ephemeral={"volumeClaimTemplate": {}}), id="a claim of its own"),
        pytest.param(volume(csi={"driver": "d"}), id="a driver's volume: a node may have only a few"),
        pytest.param(volume(iscsi={"iqn": "q"}), id="a disk, which only one pod may have"),
        pytest.param(volume(ofTomorrow={}), id="a kind of volume that is not known yet"),
        pytest.param(trainer(ports=[{"containerPort": 80, "hostPort": 80}]), id="a port of the host"),
        pytest.param(
            {"initContainers": [{**TRAINER, "ports": [{"containerPort": 80, "hostPort": 80}]}]},
            id="a port of the host in an init container",
        ),
        pytest.param(requests(rdma_hca="1"), id="an extended resource"),
        pytest.param(requests(**{"hugepages-2Mi": "1Gi"}), id="huge pages"),
    ],
)
def test_what_only_kube_scheduler_does_is_left_to_it(spec: dict[str, Any]) -> None:
    assert needs_scheduler({"containers": [TRAINER], **spec})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="nothing"),
        pytest.param(requests(cpu="4", memory="8Gi"), id="CPUs and memory"),
        pytest.param(trainer(ports=[{"containerPort": 29500}]), id="a port of the pod"),
        pytest.param({"nodeSelector": {"pool": "a100"}}, id="a node selector"),
        pytest.param(
            {"affinity": {"nodeAffinity": {}}, "tolerations": [{"operator": "Exists"}]}, id="taints"
        ),
        pytest.param(volume(emptyDir={"medium": "Memory"}), id="shared memory"),
        pytest.param(volume(hostPath={"path": "/data"}), id="a folder of the node"),
        pytest.param(volume(nfs={"server": "s", "path": "/"}), id="a folder of a server"),
        pytest.param(volume(configMap={"name": "c"}), id="files of a ConfigMap"),
    ],
)
def test_what_the_planner_and_the_kubelet_check_needs_no_kube_scheduler(spec: dict[str, Any]) -> None:
    assert not needs_scheduler({"containers": [TRAINER], **spec})


def a_world(
    job: JobBuilder, offers: dict[str, int] | None = KNOWN, other: dict[str, int] | None = None
) -> ClusterState:
    """The job, and a node that the planner knows completely unless said otherwise."""
    gpu_node = replace(a_gpu_node("n1"), other_pods={"cpu": 1000} if other is None else other or None)
    node = replace(a_node("n1"), allocatable=offers)
    return a_view([job.record], gpu_nodes=[gpu_node], nodes=[node])


def binds(view: ClusterState, config: OperatorConfig = BINDS) -> bool:
    """Whether the pods that a cycle has made are bound by it."""
    write = write_of(decided(view, config=config), "job")
    assert write is not None
    assert write.creates
    return write.binds


def test_the_pods_of_a_start_are_bound_only_if_that_is_switched_on() -> None:
    assert binds(a_world(a_job().gang(2)))
    assert not binds(a_world(a_job().gang(2)), OperatorConfig())
    with_runtime_class = BINDS.model_copy(update={"worker_runtime_class": "nvidia"})
    assert not binds(a_world(a_job().gang(2)), with_runtime_class)


def test_a_gang_that_needs_kube_scheduler_is_left_to_it() -> None:
    assert not binds(
        a_world(a_job().spec(template={"spec": volume(persistentVolumeClaim={"claimName": "c"})}))
    )


@pytest.mark.parametrize(
    ("offers", "other"),
    [
        pytest.param(None, None, id="its kubelet says nothing"),
        pytest.param(KNOWN, {}, id="its agent does not know its other pods"),
        pytest.param({**KNOWN, GPU_PERCENT: 300}, None, id="its kubelet does not offer all GPUs"),
        pytest.param({"cpu": 32_000, "pods": 110}, None, id="its kubelet knows of no GPUs"),
    ],
)
def test_a_node_that_is_not_known_is_left_to_kube_scheduler(
    offers: dict[str, int] | None, other: dict[str, int] | None
) -> None:
    assert not binds(a_world(a_job(), offers, other))


def test_a_start_that_was_decided_before_is_completed_through_kube_scheduler() -> None:
    """The node may have changed since; and pods of an earlier operator may be anywhere on their way."""
    assert not binds(a_world(a_job().placed("n1")))


def test_a_bound_pod_has_its_node_and_stays_pinned_to_it() -> None:
    job = a_job().placed("n1").record
    assert job.desired is not None
    bound, pinned = (
        worker_pod(job, job.desired.spec, job.status.placement[0], 1, bound=bound)["spec"]
        for bound in (True, False)
    )
    assert bound == {**pinned, "nodeName": "n1"}
    assert "nodeName" not in pinned


KUBELET_REFUSALS = (
    "OutOfcpu",
    "OutOfmemory",
    "OutOfpods",
    "OutOflaneway.dev/gpu-percent",
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "TaintToleration",
)


@pytest.mark.parametrize("reason", KUBELET_REFUSALS)
def test_a_gang_that_a_kubelet_refuses_is_treated_like_one_that_kube_scheduler_refuses(reason: str) -> None:
    job = a_job().gang(2).spec(backoffLimit=0).placed("n1", "n1").record
    pods = [a_pod(job, 0).running().record, a_pod(job, 1).refused(reason).record]
    status = reconciled_job_of(job, *pods, view=a_world(a_job())).job.status
    assert (status.restarts, status.completion_time) == (0, None), "no attempt of its backoffLimit"
    assert [each.node for each in status.avoid] == ["n1"]
    assert status.scheduler_refusal is not None
    assert not status.scheduler_refusal.lifted, "no job is preempted for it"
    assert status.scheduler_refusal.nodes == (), (
        "but for a time: a kubelet's reasons may change without a visible sign"
    )


def test_a_gang_that_ran_may_preempt_again_after_a_kubelet_did_not_take_it_back() -> None:
    """A kubelet that begins again refuses the pods that ran there, as the GPUs are not yet registered."""
    job = a_job().gang(2).placed("n1", "n1", at=NOW - 600).running(NOW - 590).record
    pods = [a_pod(job, rank).refused("UnexpectedAdmissionError").record for rank in range(2)]
    status = reconciled_job_of(job, *pods, view=a_world(a_job())).job.status
    assert status.placement == ()
    assert status.scheduler_refusal is None


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("Evicted", "Pod was rejected: The node had condition: [DiskPressure]. "),
        ("InvalidNodeInfo", "Pod was rejected: Kubelet cannot get node info."),
        ("ReasonOfTomorrow", "Pod was rejected: something new"),
    ],
)
def test_whatever_reason_a_kubelet_has_to_reject_a_worker_is_no_failure_of_it(
    reason: str, message: str
) -> None:
    """The node got short of disk space in the moment of the start; kube-scheduler would have seen the taint."""
    job = a_job().spec(backoffLimit=0).placed("n1").record
    pod = a_pod(job).refused(reason, message).record
    status = reconciled_job_of(job, pod, view=a_world(a_job())).job.status
    assert (status.restarts, status.completion_time) == (0, None), "no attempt of its backoffLimit"
    assert [each.node for each in status.avoid] == ["n1"]


@pytest.mark.parametrize("reason", ["NodeShutdown", "Terminated"])
def test_a_node_that_shuts_down_refuses_nothing(reason: str) -> None:
    job = a_job().placed("n1").record
    status = reconciled_job_of(job, a_pod(job).refused(reason).record, view=a_world(a_job())).job.status
    assert (status.restarts, [each.node for each in status.avoid]) == (0, ["n1"])
    assert status.scheduler_refusal is None, "it may preempt elsewhere"


def test_after_an_attempt_that_did_not_start_the_next_is_left_to_kube_scheduler() -> None:
    """kube-scheduler then says what the planner does not know."""
    job = a_job().placed("n1", at=NOW - 600)
    refused = reconciled_job_of(
        job.record, a_pod(job.record).refused("OutOfcpu").record, view=a_world(a_job())
    )
    again = job.after(lambda _: refused.job.status.model_copy(update={"avoid": ()}))
    assert not binds(a_world(again))
    ran = (
        again.placed("n1")
        .running()
        .after(transitions.unplaced, AttemptOutcome.PREEMPTED, "Preempted", "m", NOW, NOW)
    )
    assert binds(a_world(ran))
