"""CPUs of running workers: who gives back, who gets more, and in which order."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from laneway.api.names import OPERATOR_FIELD_MANAGER
from laneway.operator.cycle.cycle import Cycle, CycleResult
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.cpus import cpus_of
from laneway.operator.pacing import CPUS_AWAITED_SECONDS
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.node_record import Taint
from laneway.operator.state.records.waiting_pod import WaitingPod
from laneway.operator.state.records.worker_pod import WorkerPod, parse_worker_pod
from laneway.scheduling import PreemptionAction
from laneway.scheduling.config.operator_config import (
    OperatorConfig,
    PolicyConfig,
    SchedulingConfig,
    TimeoutsConfig,
)

from tests.unit.operator.builders import (
    GIB,
    NOW,
    JobBuilder,
    a_gpu_node,
    a_job,
    a_node,
    a_pod,
    a_session,
    a_view,
)

NODE_CPUS = 8


def asking(name: str, cpus: float, limit: float | None = None, **spec: Any) -> JobBuilder:
    """A job with half a GPU whose trainer requests CPUs."""
    resources: dict[str, Any] = {"requests": {"cpu": str(cpus)}}
    if limit is not None:
        resources["limits"] = {"cpu": str(limit)}
    container = {"name": "trainer", "image": "i", "resources": resources}
    return a_job(name).share(50).spec(template={"spec": {"containers": [container]}}, **spec)


def runs(job: JobBuilder, *nodes: str) -> JobRecord:
    return job.placed(*(nodes or ("n1",)), percent=50, at=NOW - 900).running(since=NOW - 800).record


def pod_of(
    job: JobRecord,
    spec: float | None = None,
    allocated: float | None = None,
    *,
    rank: int = 0,
    condition: dict[str, str] | None = None,
    by: str = OPERATOR_FIELD_MANAGER,
) -> WorkerPod:
    """A worker that runs, with other CPUs than its job's template where they are given."""
    raw = a_pod(job, rank).running(since=NOW - 800).raw
    trainer = raw["spec"]["containers"][0]
    if spec is not None:
        trainer["resources"]["requests"]["cpu"] = str(spec)
        raw["metadata"]["managedFields"] = [{"manager": by, "subresource": "resize"}]
    given = trainer["resources"]["requests"]["cpu"] if allocated is None else str(allocated)
    found = raw["status"]["containerStatuses"][0]
    found["allocatedResources"] = {"cpu": given}
    found["resources"] = {"requests": {"cpu": given}}
    if condition:
        raw["status"]["conditions"] = [{"status": "True", **condition}]
    return parse_worker_pod(raw)


class Cluster:
    """Nodes of two GPUs and eight CPUs, and an operator that divides CPUs."""

    def __init__(self, policy: str = "proportional", spare: int = 0) -> None:
        scheduling = SchedulingConfig(allocation=PolicyConfig(policy=policy), spareCPUPercent=spare)
        self.cycle = Cycle(OperatorConfig(scheduling=scheduling))
        self.others: dict[str, int] | None = {"cpu": 0, "memory": 0}
        self.taints: tuple[Taint, ...] = ()
        self.now = NOW

    def run(
        self,
        jobs: list[JobRecord],
        pods: list[WorkerPod],
        history: WriteHistory | None = None,
        figures: dict[str, Any] | None = None,
    ) -> CycleResult:
        """Decide from the cluster as it is now."""
        allocatable = {"cpu": 1000 * NODE_CPUS, "memory": 64 * GIB, "pods": 110}
        nodes = [replace(a_node(name), allocatable=allocatable, taints=self.taints) for name in ("n1", "n2")]
        sessions = {
            name: {
                0: [
                    a_session(pod, lane=0, **(figures or {}))
                    for pod in pods
                    if pod.node == name and pod.phase == "Running"
                ],
            }
            for name in ("n1", "n2")
        }
        self.now += 10
        gpu_nodes = [
            replace(
                a_gpu_node(name, 2, sessions=sessions[name]),
                other_pods=self.others,
                observed_seconds=self.now,
            )
            for name in ("n1", "n2")
        ]
        state = a_view(jobs, pods, gpu_nodes, nodes)
        result = self.cycle.run(state, history or WriteHistory({}, {}), self.now)
        assert result.problem == ""
        return result


def resized(result: CycleResult) -> dict[str, int]:
    """CPUs that pods are to have, in thousandths."""
    return {write.pod.name: write.cpu_millis for write in result.resizes}


def test_a_job_gets_idle_cpus_beyond_its_request() -> None:
    job = runs(asking("a", 1))
    assert resized(Cluster().run([job], [pod_of(job)])) == {"a-0": 2000}, "half of one of two GPUs"


def test_without_an_allocation_policy_workers_get_back_what_they_request_and_then_are_left_alone() -> None:
    """Those that have more give it back first: the node has not the CPUs before that."""
    cluster, rich, poor = Cluster("none"), runs(asking("rich", 1)), runs(asking("poor", 5, minimumCPU="1"))
    jobs = [rich, poor]
    assert resized(cluster.run(jobs, [pod_of(rich, 6, 6), pod_of(poor, 2, 2)])) == {"rich-0": 1000}
    assert resized(cluster.run(jobs, [pod_of(rich, 1, 6), pod_of(poor, 2, 2)])) == {}
    assert resized(cluster.run(jobs, [pod_of(rich, 1, 1), pod_of(poor, 2, 2)])) == {"poor-0": 5000}
    assert resized(cluster.run(jobs, [pod_of(rich, 1, 1), pod_of(poor, 5, 5)])) == {}
    assert not cluster.cycle.lends_cpus
    assert resized(cluster.run(jobs, [pod_of(rich, 6, 6), pod_of(poor, 5, 5)])) == {}, (
        "somebody else did that"
    )


def test_without_an_allocation_policy_a_job_that_starts_waits_for_what_was_lent() -> None:
    cluster, rich = Cluster("none"), runs(asking("rich", 2))
    new = asking("new", 6).placed("n1", percent=50, at=NOW).record
    result = cluster.run([rich, new], [pod_of(rich, 7, 7)])
    assert resized(result) == {"rich-0": 2000}
    assert not [write for write in result.writes if write.creates]
    given_back = cluster.run([rich, new], [pod_of(rich, 2, 2)])
    assert [write.job.name for write in given_back.writes if write.creates] == ["new"]


def test_without_an_allocation_policy_cpus_that_another_has_changed_are_left_alone() -> None:
    job = runs(asking("a", 1))
    assert not Cluster("none").run([job], [pod_of(job, 2, 2, by="kubectl")]).resizes


def test_some_cpus_are_left_to_other_pods() -> None:
    job = runs(asking("a", 1))
    assert resized(Cluster(spare=50).run([job], [pod_of(job)])) == {}
    assert resized(Cluster(spare=20).run([job], [pod_of(job)])) == {"a-0": 1600}


def test_nobody_gets_more_while_it_is_not_known_what_other_pods_request() -> None:
    cluster, job = Cluster(), runs(asking("a", 1))
    cluster.others = None
    assert resized(cluster.run([job], [pod_of(job)])) == {}


@pytest.mark.parametrize(
    ("limit", "expected"), [(None, None), (1, 2000), (4, 5000)], ids=["none", "guaranteed", "above"]
)
def test_a_limit_stays_equal_to_the_request_or_above_it(limit: float | None, expected: int | None) -> None:
    """Else the pod would be of another QoS class, which the API server refuses."""
    job = runs(asking("a", 1, limit))
    (write,) = Cluster().run([job], [pod_of(job)]).resizes
    assert write.limit_millis == expected


def test_a_job_that_starts_gets_its_cpus_back_from_one_that_has_more() -> None:
    cluster = Cluster()
    rich, new = runs(asking("rich", 2)), asking("new", 6).visited().record
    full = pod_of(rich, 7, 7)
    busy = runs(asking("elsewhere", 6), "n2")
    jobs, others = [rich, new, busy], [pod_of(busy)]

    decided = cluster.run(jobs, [full, *others])
    assert resized(decided) == {"rich-0": 2000}
    (start,) = [write for write in decided.writes if write.job.name == "new"]
    assert start.status.placement[0].node == "n1"
    assert start.creates == (), "its node has not its CPUs yet"

    new = asking("new", 6).placed("n1", percent=50, at=NOW).record
    jobs = [rich, new, busy]
    shrinking = pod_of(rich, 2, 7)
    assert not [write for write in cluster.run(jobs, [shrinking, *others]).writes if write.creates]
    given_back = pod_of(rich, 2, 2)
    (start,) = [write for write in cluster.run(jobs, [given_back, *others]).writes if write.creates]
    assert [worker.node for worker in start.creates] == ["n1"]


def test_a_job_does_not_wait_for_ever_for_cpus_that_a_kubelet_does_not_take_back() -> None:
    """Else it would be rolled back for not having started, and be placed there again."""
    cluster = Cluster()
    rich, new = runs(asking("rich", 2)), asking("new", 6).placed("n1", percent=50, at=NOW).record
    stuck = pod_of(rich, 2, 7, condition={"type": "PodResizeInProgress", "reason": "Error", "message": "no"})
    created = []
    while cluster.now < NOW + 60:
        created.append(any(write.creates for write in cluster.run([rich, new], [stuck]).writes))
    assert created[0] is False
    assert created[-1] is True


def test_no_more_is_taken_back_than_the_one_that_starts_needs() -> None:
    cluster = Cluster()
    rich, new = runs(asking("rich", 1)), asking("new", 3).placed("n1", percent=50, at=NOW).record
    assert resized(cluster.run([rich, new], [pod_of(rich, 7, 7)])) == {"rich-0": 1600}, "a third of five"


def test_a_job_whose_node_takes_cpus_back_slowly_is_told_and_starts_in_the_end() -> None:
    """Its pods are created all the same in the end, so that kube-scheduler can refuse the node."""
    cluster, rich = Cluster(), runs(asking("rich", 2).metadata(namespace="other"))
    waits, busy = asking("new", 6).visited().record, runs(asking("elsewhere", 6), "n2")
    pods = [pod_of(rich, 4, 4), pod_of(busy)]
    (start,) = [each for each in cluster.run([rich, waits, busy], pods).writes if each.job is waits]
    assert start.after.waits_for == ("other/rich",)
    new, pods[0] = waits.with_status(start.status), pod_of(rich, 2, 4)
    placed = cluster.now
    assert new.status.waiting is not None
    assert new.status.waiting.message == (
        "Waiting for n1 to take back 2 CPUs that a job of another namespace was lent."
    )
    created = 0.0
    while new.status.attempt == 1:
        for each in cluster.run([rich, new, busy], pods).writes:
            if each.job is new:
                created = created or (cluster.now if each.creates else 0.0)
                new = new.with_status(each.status)
    assert created == placed + CPUS_AWAITED_SECONDS < TimeoutsConfig().gang_timeout_seconds + placed


def test_a_job_that_starts_waits_for_cpus_that_another_is_just_getting() -> None:
    """Else its pods are created beside a growth in flight, and kube-scheduler refuses them."""
    cluster = Cluster()
    first, new = runs(asking("first", 2)), asking("new", 6).placed("n1", percent=50, at=NOW).record
    grows = WriteHistory({}, {}, resizing={"uid-first-0-1": 4000})
    result = cluster.run([first, new], [pod_of(first)], grows)
    assert (resized(result), [write for write in result.writes if write.creates]) == ({}, [])
    result = cluster.run([first, new], [pod_of(first, 4, 4)])
    assert (resized(result), [write for write in result.writes if write.creates]) == ({"first-0": 2000}, [])


def test_where_nobody_gives_cpus_back_workers_are_created_and_kube_scheduler_says_why_they_wait() -> None:
    cluster = Cluster()
    new = asking("new", 6).placed("n1", percent=50, at=NOW).record
    full = runs(asking("full", 6))
    (start,) = [each for each in cluster.run([full, new], [pod_of(full)]).writes if each.creates]
    assert start.job.name == "new"


def test_one_grows_only_once_the_kubelet_has_taken_the_cpus_from_another() -> None:
    cluster = Cluster()
    first, second = runs(asking("first", 1)), runs(asking("second", 1))
    rich, poor = pod_of(first, 7, 7), pod_of(second)
    assert resized(cluster.run([first, second], [rich, poor])) == {"first-0": 2000}
    assert resized(cluster.run([first, second], [pod_of(first, 2, 7), poor])) == {}
    assert resized(cluster.run([first, second], [pod_of(first, 2, 2), poor])) == {"second-0": 2000}


def test_a_gang_grows_on_all_of_its_nodes_or_on_none() -> None:
    cluster = Cluster()
    gang = runs(asking("gang", 1).gang(2), "n1", "n2")
    beside = runs(asking("beside", 1), "n2")
    workers = [pod_of(gang, rank=0), pod_of(gang, rank=1)]
    assert resized(cluster.run([gang, beside], [*workers, pod_of(beside, 7, 7)])) == {"beside-0": 2000}
    grown = resized(cluster.run([gang, beside], [*workers, pod_of(beside, 2, 2)]))
    assert grown == {"gang-0": 2000, "gang-1": 2000}


def test_fewer_than_requested_only_where_the_spec_allows_it() -> None:
    cluster = Cluster()
    may, may_not = asking("may", 3, minimumCPU=2), asking("may-not", 3)
    greedy = asking("whole", 1).spec(gpus={"type": "Count", "count": 1})
    for job, expected in ((runs(may), {"may-0": 2000}), (runs(may_not), {})):
        beside = runs(greedy)
        done = resized(cluster.run([job, beside], [pod_of(job), pod_of(beside)]))
        done.pop("whole-0", None)
        assert done == expected


def test_a_job_that_pauses_keeps_what_it_requests() -> None:
    cluster, job = Cluster(), runs(asking("a", 1))
    pod = pod_of(job, 2, 2)
    asked = transitions.asked_to_pause(job.status, PreemptionAction.PAUSE, "HigherQueue", "why", NOW, "ns/b")
    assert resized(cluster.run([job.with_status(asked)], [pod])) == {"a-0": 1000}


def test_what_a_kubelet_refuses_is_taken_back_and_not_tried_again() -> None:
    cluster, job = Cluster(), runs(asking("a", 1))
    says = {"type": "PodResizePending", "reason": "Infeasible", "message": "static CPU manager"}
    result = cluster.run([job], [pod_of(job, 2, 1, condition=says)])
    (write,) = result.resizes
    assert write.cpu_millis == 1000
    assert write.event is not None
    assert "static CPU manager" in write.event.message
    assert resized(cluster.run([job], [pod_of(job)])) == {}


def test_what_a_kubelet_defers_is_left_to_it_and_told() -> None:
    cluster, job = Cluster(), runs(asking("a", 1))
    says = {"type": "PodResizePending", "reason": "Deferred", "message": "not enough CPUs now"}
    pod = pod_of(job, 2, 1, condition=says)
    assert not cluster.run([job], [pod]).resizes
    status = cpus_of(job.desired, [pod])
    assert status is not None
    assert status.message == "Worker 0 on n1: Deferred: not enough CPUs now"


@pytest.mark.parametrize(
    "history",
    [
        WriteHistory({}, {}, resizes_unavailable="no"),
        WriteHistory({}, {}, resize_bounds={"uid-a-0-1": (0, 1000)}),
        WriteHistory({}, {}, resizing={"uid-a-0-1": 2000}),
    ],
    ids=["unavailable", "refused", "in-flight"],
)
def test_what_the_api_server_refused_or_still_does_is_not_asked_again(history: WriteHistory) -> None:
    job = runs(asking("a", 1))
    assert not Cluster().run([job], [pod_of(job)], history).resizes


@pytest.mark.parametrize(
    ("spec", "allocated", "shown"), [(1, 1, None), (2, 1, None), (2.5, 2.5, "2500m"), (1, 3, "3")]
)
def test_the_status_says_what_workers_have_where_it_is_not_what_they_request(
    spec: float, allocated: float, shown: str | None
) -> None:
    job = runs(asking("a", 1))
    status = cpus_of(job.desired, [pod_of(job, spec, allocated)])
    assert (None if status is None else status.allocated) == shown


def test_of_a_gang_the_status_shows_the_fewest() -> None:
    job = runs(asking("a", 1).gang(2), "n1", "n2")
    status = cpus_of(job.desired, [pod_of(job, 3, 3), pod_of(job, 2, 2, rank=1)])
    assert status is not None
    assert (status.allocated, status.requested) == ("2", "1")


def test_a_pod_with_cpus_of_its_own_or_without_a_request_is_left_alone() -> None:
    template = {
        "spec": {"resources": {"requests": {"cpu": "2"}}, "containers": [{"name": "t", "image": "i"}]}
    }
    for job in (a_job("a").share(50), a_job("a").share(50).spec(template=template)):
        record = runs(job)
        assert record.desired is not None
        assert record.desired.cpus is None
        assert not Cluster().run([record], [a_pod(record).running(since=NOW - 800).record]).resizes


@pytest.mark.parametrize(
    ("cpus", "minimum", "words"),
    [(2, "3", "requests 2 CPUs"), (2, "0", "write at most"), (2, "many", "not a quantity")],
)
def test_a_minimum_that_does_not_suit_the_template_is_explained(
    cpus: float, minimum: str, words: str
) -> None:
    record = asking("a", cpus, minimumCPU=minimum).record
    assert record.desired is None
    assert words in record.problem


def test_what_the_rest_of_a_pod_requests_is_not_the_trainers() -> None:
    job = asking("a", 1)
    sidecar = {"name": "logs", "image": "i", "resources": {"requests": {"cpu": "500m"}}}
    containers = [*job.raw["spec"]["template"]["spec"]["containers"], sidecar]
    record = runs(job.spec(template={"spec": {"containers": containers}}))
    assert resized(Cluster().run([record], [pod_of(record)])) == {"a-0": 1500}, "2 CPUs for the pod"


@pytest.mark.parametrize("policy", ["none", "proportional"])
@pytest.mark.parametrize("minimum", [{}, {"minimumCPU": "1m"}], ids=["all", "lends"])
def test_a_template_that_is_changed_while_its_job_runs_takes_nothing_from_others(
    policy: str, minimum: dict[str, str]
) -> None:
    """Else who writes a thousand CPUs into a running job would keep all others off its node."""
    before = asking("a", 1, **minimum)
    small, new = runs(before, "n1"), asking("new", 5).visited().record
    edited = replace(runs(asking("a", 1000, **minimum), "n1"), uid=small.uid)
    busy = runs(asking("busy", 6), "n2")
    result = Cluster(policy).run([edited, new, busy], [pod_of(small), pod_of(busy)])
    (start,) = [write for write in result.writes if write.job.name == "new"]
    assert [worker.node for worker in start.status.placement] == ["n1"]


def test_an_injected_sidecar_still_counts_beside_cpus_that_were_given() -> None:
    """What a worker was given can be had back; what somebody added to its pod cannot."""
    cluster, rich = Cluster(), runs(asking("rich", 2))
    raw = a_pod(rich).running(since=NOW - 800).raw
    raw["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
    raw["spec"]["containers"].append({"name": "mesh", "resources": {"requests": {"cpu": "1"}}})
    busy = runs(asking("elsewhere", 8), "n2")
    fits, does_not = asking("new", 5).visited().record, asking("new", 6).visited().record
    for new, starts in ((fits, True), (does_not, False)):
        result = cluster.run([rich, busy, new], [parse_worker_pod(raw), pod_of(busy)])
        assert ("ns/new" in result.decision.starts) == starts


def test_a_job_is_tried_with_other_cpus_and_then_has_what_it_can_use() -> None:
    """Four CPUs keep its GPU busy. The kubelet does what it is asked, a while later; the nodes count iterations."""
    cluster = Cluster("tune")
    job, pod_cpus, has_cpus, iterations = runs(asking("a", 2, 2, minimumCPU="1")), 2.0, 2.0, 0.0
    seen = []
    for step in range(80):
        iterations += 10 * min(has_cpus, 4)
        if step % 2:
            has_cpus = pod_cpus
        figures = {
            "profiled": True,
            "persistentBytes": GIB,
            "iterations": int(iterations),
            "iterationMicroseconds": 250_000,
        }
        result = cluster.run([job], [pod_of(job, pod_cpus, has_cpus)], figures=figures)
        for write in result.resizes:
            pod_cpus = write.cpu_millis / 1000
            seen.append(pod_cpus)
        for written in result.writes:
            job = job.with_status(written.status)
    assert seen[:3] == [1, 8, 4], "half, all that is idle, and between"
    assert seen[-1] == 4, "what it can use"
    assert job.status.profile is not None
    points = {each.cpu_millis: each.iteration_microseconds for each in job.status.profile.cpu_points}
    assert points == {1000: 1_000_000, 2000: 500_000, 4000: 250_000, 8000: 250_000}


def test_a_job_that_starts_ends_the_trial_of_another() -> None:
    cluster = Cluster("tune")
    job = runs(asking("a", 2, 2))
    for count in range(8):
        result = cluster.run([job], [pod_of(job)], figures={"profiled": True, "iterations": 20 * count})
    assert resized(result) == {"a-0": 8000}
    busy = runs(asking("elsewhere", 6), "n2")
    new = asking("new", 5).visited().record
    result = cluster.run([job, busy, new], [pod_of(job, 8, 8), pod_of(busy)])
    assert resized(result)["a-0"] <= 3000


def test_what_was_lent_is_given_back_to_another_pod_that_waits_for_it() -> None:
    cluster, job = Cluster(), runs(asking("a", 1))
    waits = WriteHistory({}, {}, waiting_pods=(WaitingPod(6500, {}),))
    assert resized(cluster.run([job], [pod_of(job, 4, 4)], waits)) == {"a-0": 1000}
    assert cluster.cycle.lends_cpus
    assert resized(cluster.run([job], [pod_of(job)], waits)) == {}, "it is not scheduled yet"
    assert cluster.cycle.lends_cpus
    assert resized(cluster.run([job], [pod_of(job)])) == {"a-0": 2000}


@pytest.mark.parametrize(("waits", "grows"), [(6000, True), (6001, False), (7001, True)])
def test_a_pod_that_waits_elsewhere_keeps_only_its_own_cpus_free(waits: int, grows: bool) -> None:
    """What fits nowhere takes nothing."""
    job = runs(asking("a", 1))
    history = WriteHistory({}, {}, waiting_pods=(WaitingPod(waits, {}),))
    assert bool(resized(Cluster().run([job], [pod_of(job)], history))) == grows


TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("spec", "gives_back"),
    [
        ({}, False),
        ({"tolerations": [TOLERATION]}, True),
        ({"tolerations": [TOLERATION], "nodeSelector": {"pool": "cpu"}}, False),
    ],
    ids=["taint", "tolerated", "selector"],
)
def test_a_pod_that_may_not_go_to_a_node_gets_none_of_its_cpus(
    spec: dict[str, Any], gives_back: bool
) -> None:
    cluster, job = Cluster(), runs(asking("a", 1))
    cluster.taints = (Taint("nvidia.com/gpu", "present", "NoSchedule"),)
    waits = WriteHistory({}, {}, waiting_pods=(WaitingPod(6500, spec),))
    assert resized(cluster.run([job], [pod_of(job, 2, 2)], waits)) == ({"a-0": 1000} if gives_back else {})


def bounded(low: float, high: float) -> WriteHistory:
    """What the API server has refused of the first worker of the job named rich."""
    return WriteHistory({}, {}, resize_bounds={"uid-rich-0-1": (low, high)})


def test_a_worker_that_was_refused_more_still_gives_back_what_it_was_lent() -> None:
    cluster, rich = Cluster(), runs(asking("rich", 1))
    lent, refused = pod_of(rich, 1.5, 1.5), bounded(0, 1500)
    assert resized(cluster.run([rich], [lent], refused)) == {}
    busy, new = runs(asking("elsewhere", 6), "n2"), asking("new", 7).visited().record
    result = cluster.run([rich, busy, new], [lent, pod_of(busy)], refused)
    assert resized(result) == {"rich-0": 1000}
    (start,) = [write for write in result.writes if write.job.name == "new"]
    assert start.creates == (), "its node has not its CPUs yet"


@pytest.mark.parametrize(
    "history",
    [bounded(3000, math.inf), WriteHistory({}, {}, resizes_unavailable="no")],
    ids=["refused", "unavailable"],
)
def test_no_job_is_placed_on_cpus_that_a_worker_cannot_give_back(history: WriteHistory) -> None:
    cluster, rich = Cluster(), runs(asking("rich", 2))
    busy, new = runs(asking("elsewhere", 6), "n2"), asking("new", 6).visited().record
    pods = [pod_of(rich, 3, 3), pod_of(busy)]
    result = cluster.run([rich, busy, new], pods, history)
    assert (resized(result), result.decision.starts) == ({}, {})
    result = cluster.run([rich, busy, new], pods)
    assert list(result.decision.starts) == ["ns/new"], "it is asked again"


def test_of_a_gang_none_gets_more_where_one_may_not() -> None:
    gang = runs(asking("rich", 1).gang(2), "n1", "n2")
    workers = [pod_of(gang, rank=0), pod_of(gang, 2, 2, rank=1)]
    assert resized(Cluster().run([gang], workers, bounded(0, 1000))) == {"rich-1": 1000}


def test_a_gang_of_which_a_worker_has_ended_gives_back_what_it_was_lent() -> None:
    gang = runs(asking("rich", 1).gang(2), "n1", "n2")
    workers = [pod_of(gang, 4, 4), a_pod(gang, 1).ended().record]
    assert resized(Cluster().run([gang], workers)) == {"rich-0": 2000}


@pytest.mark.parametrize(
    ("status", "held", "settled"),
    [
        ({}, 2000, True),
        ({"allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "1998m"}}}, 2000, True),
        ({"allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}}}, 3000, False),
        ({"resources": {"requests": {"cpu": "1"}}}, 2000, False),
        ({"resources": {"requests": {"cpu": "3"}}}, 3000, False),
    ],
)
def test_a_pod_holds_the_most_of_what_its_spec_and_its_kubelet_say(
    status: dict[str, Any], held: int, settled: bool
) -> None:
    raw = a_pod(runs(asking("a", 2))).running().raw
    raw["status"]["containerStatuses"][0] |= status
    cpus = parse_worker_pod(raw).cpus
    assert cpus is not None
    assert (cpus.held_millis, cpus.settled) == (held, settled)
