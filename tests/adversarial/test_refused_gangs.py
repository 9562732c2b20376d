"""A gang that kube-scheduler or a kubelet refuses does not preempt the same jobs again and again.

Four hours of the operator's own cycle, in simulated time, with a kube-scheduler that counts CPUs and may have further reasons.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from laneway.api import names
from laneway.api.rfc3339 import format_time
from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.cycle.writes import JobWrite
from laneway.operator.execute.manifests import worker_pod
from laneway.operator.state.cache import ClusterCache
from laneway.operator.state.records.worker_pod import parse_worker_pod
from laneway.scheduling import Demand, HostResources, policies
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.scheduling.model.host_resources import CPU
from laneway.simulator import OperatorModel, Simulation, TraceJob, make_nodes
from laneway.simulator.history import Phase

CONFIG = OperatorConfig()
GIB = 2**30
NOW = 1_000_000.0
STEP_SECONDS = 5.0
FOUR_HOURS = 4 * 3600.0
GPUS, CPUS = 4, 32
"""Of each node."""


class World:
    """Two nodes whose other pods take CPUs, the operator, and a kube-scheduler."""

    def __init__(self, others_cpus: int, config: OperatorConfig = CONFIG) -> None:
        self.now = NOW
        self.versions = 1
        self.cache = ClusterCache(lambda: self.now)
        self.raw: dict[str, dict[str, Any]] = {}
        self.cycle = Cycle(config)
        self.preempted: Counter[str] = Counter()
        self.bound = 0
        """Pods that the operator bound."""

        self.others_cpus = {"n1": others_cpus, "n2": others_cpus}
        self.refuses: set[str] = set()
        """Jobs whose workers kube-scheduler, or the kubelet of a pod that was bound without it, refuses for a reason of its own."""

        self.rejects: set[str] = set()
        """Jobs whose workers a kubelet refuses though kube-scheduler has bound them."""

        for node in self.others_cpus:
            self.report(node)

    def report(self, name: str) -> None:
        """The kubelet and the node agent say what is on a node."""
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(NOW)}
        offered = {"cpu": str(CPUS), "memory": "512Gi", "pods": "110", names.GPU_PERCENT: str(100 * GPUS)}
        node = {
            "metadata": {"name": name, "uid": name},
            "status": {"conditions": [ready], "allocatable": offered},
        }
        self.put("nodes", name, node)
        gpus = [
            {
                "uuid": f"{name}/{index}",
                "index": index,
                "model": "A100",
                "memoryBytes": 80 * GIB,
                "allocatableBytes": 80 * GIB,
                "allocatablePercent": 100,
                "healthy": True,
            }
            for index in range(GPUS)
        ]
        status = {
            "conditions": [{**ready, "reason": "Tested", "message": ""}],
            "gpus": gpus,
            "otherPodsRequests": {"cpu": str(self.others_cpus[name]), "pods": "1"},
        }
        self.put("gpu_nodes", name, {"metadata": {"name": name, "uid": f"gpu-{name}"}, "status": status})

    def put(self, store: str, name: str, raw: dict[str, Any]) -> None:
        self.versions += 1
        raw["metadata"] = {**raw["metadata"], "resourceVersion": str(self.versions)}
        self.raw[f"{store}/{name}"] = raw
        getattr(self.cache, store).observe(raw)

    def submit(self, name: str, workers: int, cpus: int = 0) -> None:
        """A gang of one-GPU workers, each with a request for CPUs if any."""
        trainer: dict[str, Any] = {"name": "trainer", "image": "i"}
        if cpus:
            trainer["resources"] = {"requests": {"cpu": str(cpus)}}
        metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "generation": 1}
        spec = {
            "workers": workers,
            "gpus": {"type": "Count", "count": 1},
            "template": {"spec": {"containers": [trainer]}},
        }
        created = {"creationTimestamp": format_time(self.now)}
        self.put("jobs", name, {"kind": "TrainingJob", "metadata": {**metadata, **created}, "spec": spec})

    def go_on(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            for name in self.others_cpus:
                self.report(name)
            self.kube_scheduler()
            self.kubelets()
            state = self.cache.state(CONFIG.timeouts.silent_node_seconds)
            result = self.cycle.run(state, WriteHistory({}, {}), self.now)
            assert result.problem == ""
            self.preempted.update(key.removeprefix("ns/") for key in result.decision.preemptions)
            for write in result.writes:
                self.carry_out(write)
            self.now += STEP_SECONDS

    def kube_scheduler(self) -> None:
        """Bind pods whose nodes have the CPUs; refuse the others."""
        pods = {key: raw for key, raw in self.raw.items() if key.startswith("pods/")}
        left = {name: CPUS - taken for name, taken in self.others_cpus.items()}
        for raw in pods.values():
            if raw["spec"].get("nodeName"):
                left[raw["spec"]["nodeName"]] -= _cpus(raw)
        for key, raw in pods.items():
            node = parse_worker_pod(raw).node
            if raw["spec"].get("nodeName"):
                continue
            if left[node] >= _cpus(raw) and not self.is_refused(raw):
                left[node] -= _cpus(raw)
                self.put(
                    "pods", key.removeprefix("pods/"), {**raw, "spec": {**raw["spec"], "nodeName": node}}
                )
            elif not raw["status"].get("conditions"):
                refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
                says = {"message": "Insufficient cpu.", "lastTransitionTime": format_time(self.now)}
                status = {"phase": "Pending", "conditions": [{**refusal, **says}]}
                self.put("pods", key.removeprefix("pods/"), {**raw, "status": status})

    def kubelets(self) -> None:
        """Start the pods that the operator has bound, or refuse them."""
        for key, raw in list(self.raw.items()):
            if not key.startswith("pods/") or "nodeName" not in raw["spec"]:
                continue
            if self.is_refused(raw) or raw["metadata"]["labels"][names.JOB_LABEL] in self.rejects:
                status = {"phase": "Failed", "reason": "OutOfcpu", "message": "Node didn't have enough"}
                self.put("pods", key.removeprefix("pods/"), {**raw, "status": status})
            elif raw["status"]["phase"] == "Pending":
                self.start(key, raw)

    def is_refused(self, pod: dict[str, Any]) -> bool:
        return pod["metadata"]["labels"][names.JOB_LABEL] in self.refuses

    def start(self, key: str, pod: dict[str, Any]) -> None:
        running = {"running": {"startedAt": format_time(self.now)}}
        status = {"phase": "Running", "containerStatuses": [{"name": "trainer", "state": running}]}
        self.put("pods", key.removeprefix("pods/"), {**pod, "status": status})

    def carry_out(self, write: JobWrite) -> None:
        job = write.job
        if write.writes_status:
            self.put("jobs", job.name, {**self.raw[f"jobs/{job.name}"], "status": write.status.to_json()})
        for worker in write.creates:
            assert job.desired is not None
            pod = worker_pod(job, job.desired.spec, worker, write.status.attempt, bound=write.binds)
            self.bound += write.binds
            pod["metadata"]["uid"] = f"uid-{self.versions}"
            pod["status"] = {"phase": "Pending"}
            self.put("pods", pod["metadata"]["name"], pod)
        for pod in write.after.pods_to_delete:
            self.cache.pods.forget(self.raw.pop(f"pods/{pod.name}")["metadata"])

    def runs(self, job: str) -> bool:
        status = self.raw[f"jobs/{job}"].get("status") or {}
        return any(each["type"] == "Running" and each["status"] == "True" for each in status["conditions"])

    def waiting(self, job: str) -> dict[str, Any]:
        waiting: dict[str, Any] = self.raw[f"jobs/{job}"]["status"]["waiting"]
        return waiting


def _cpus(pod: dict[str, Any]) -> int:
    resources = pod["spec"]["containers"][0].get("resources") or {}
    return int((resources.get("requests") or {}).get("cpu", 0))


def two_old_gangs(others_cpus: int, config: OperatorConfig = CONFIG) -> World:
    """Both nodes are full of gangs in a later queue."""
    world = World(others_cpus, config)
    for name in ("old-1", "old-2"):
        world.submit(name, 4)
    world.go_on(6 * 3600)
    assert world.runs("old-1")
    assert world.runs("old-2")
    return world


def test_a_gang_that_lacks_cpus_preempts_nobody() -> None:
    """Before the planner knew requests: 46 times each."""
    world = two_old_gangs(others_cpus=20)
    world.submit("new", 8, cpus=8)
    world.go_on(FOUR_HOURS)
    assert world.preempted == Counter()
    assert "cpu" in world.waiting("new")["message"] + world.waiting("new")["unblock"]
    world.others_cpus = {"n1": 0, "n2": 0}
    world.go_on(600)
    assert world.preempted == Counter({"old-1": 1, "old-2": 1})
    assert world.runs("new")


@pytest.mark.parametrize("binds", [False, True])
def test_a_gang_that_is_refused_for_another_reason_preempts_once_until_something_changes(binds: bool) -> None:
    world = two_old_gangs(20, CONFIG.model_copy(update={"bind_pods": binds}))
    assert world.bound == (8 if binds else 0)
    world.refuses.add("new")
    world.submit("new", 8)
    world.go_on(FOUR_HOURS)
    once = 2 if binds else 1  # after a kubelet, kube-scheduler refuses it too
    assert world.preempted == Counter({"old-1": once, "old-2": once})
    assert world.runs("old-1")
    assert world.runs("old-2")
    assert "refused its workers" in world.waiting("new")["unblock"]
    world.others_cpus["n1"] = 10
    world.refuses.clear()
    world.go_on(1200)
    assert world.preempted == Counter({"old-1": once + 1, "old-2": once + 1})
    assert world.runs("new")


@pytest.mark.parametrize("binds", [False, True])
def test_a_gang_that_a_kubelet_refused_once_does_not_wait_for_ever(binds: bool) -> None:
    """A device plugin restarted in that moment. Nothing that anybody can see changes afterwards."""
    world = two_old_gangs(20, CONFIG.model_copy(update={"bind_pods": binds}))
    world.rejects.add("new")
    world.submit("new", 8)
    while "schedulerRefusal" not in world.raw["jobs/new"].get("status", {}):
        world.go_on(STEP_SECONDS)
    world.rejects.clear()
    world.go_on(1200)
    assert world.preempted == Counter({"old-1": 2, "old-2": 2})
    assert world.runs("new")


def test_pods_that_come_and_go_do_not_make_a_refused_gang_preempt_again_and_again() -> None:
    """Another pod leaves every ten minutes: each time, something has changed."""
    world = two_old_gangs(others_cpus=20)
    world.refuses.add("new")
    world.submit("new", 8)
    for _ in range(24):
        world.others_cpus["n1"] = 20
        world.go_on(300)
        world.others_cpus["n1"] = 10
        world.go_on(300)
    assert max(world.preempted.values()) <= 6, "after 5, 10, 20, 40, 80 minutes"


def test_a_refused_gang_starts_on_idle_gpus_all_the_same() -> None:
    world = two_old_gangs(others_cpus=20)
    world.refuses.add("new")
    world.submit("new", 4)
    world.go_on(1200)
    assert world.preempted.total() == 1
    world.refuses.clear()
    ended = next(name for name in ("old-1", "old-2") if world.runs(name))
    world.cache.jobs.forget(world.raw.pop(f"jobs/{ended}")["metadata"])
    for key in [key for key in world.raw if key.startswith(f"pods/{ended}-")]:
        world.cache.pods.forget(world.raw.pop(key)["metadata"])
    world.go_on(1200)
    assert world.runs("new")


def test_the_simulator_tries_a_refused_gang_when_the_operator_does() -> None:
    """Thirteen attempts: rollbacks, avoided nodes and back-off, up to the steps of this world's time."""
    world = World(others_cpus=0)
    world.refuses.add("new")
    world.submit("new", 4)
    placed: list[float] = []
    while world.now < NOW + 3000:
        world.go_on(STEP_SECONDS)
        if world.raw["jobs/new"]["status"]["attempt"] > len(placed):
            placed.append(world.now)
    nodes = [replace(node, host=HostResources.of({CPU: 1000 * CPUS})) for node in make_nodes(f"2x{GPUS}")]
    job = TraceJob("ns/new", Demand(4), 0.0, 10.0, unseen_requests=HostResources.of({CPU: 1000 * CPUS}))
    simulation = Simulation([job], nodes, policies(), operator=OperatorModel(CONFIG))
    while simulation.now_seconds < 3000 and simulation.step():
        pass
    simulated = [each.from_seconds for each in simulation.intervals() if each.phase is Phase.STARTING]
    waits = [after - before for before, after in pairwise(placed)]
    simulated_waits = [after - before for before, after in pairwise(simulated)]
    assert len(waits) > 10
    for wait, simulated_wait in zip(waits, simulated_waits, strict=False):
        assert abs(wait - simulated_wait) <= 2 * STEP_SECONDS
