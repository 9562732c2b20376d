"""A cycle with cached state decides the same as one that sees everything for the first time, after any
history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from laneway.api import names
from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import TrainingJobStatus, WaitingStatus
from laneway.operator.cycle.cycle import Cycle, CycleResult
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.cycle.writes import JobWrite
from laneway.operator.execute.manifests import worker_pod
from laneway.operator.lifecycle import transitions
from laneway.operator.state.cache import ClusterCache
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.worker_pod import parse_worker_pod
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.scheduling.fairness.contention import Contention

from tests.unit.operator.builders import (
    GIB,
    NOW,
    a_gpu,
    a_job,
    a_plain_session,
    a_session,
    samples_of,
    scheduler_input,
)
from tests.unit.operator.visible_names import foreign_names

NODES = ("n1", "n2", "n3")
TENANTS = ("tenanta", "tenantb", "tenantc")
"""Namespaces, of which the jobs are in turn."""
CONFIG = OperatorConfig.model_validate(
    {
        "scheduling": {"preemption": {"policy": "lowest-first", "options": {"minRunSeconds": 0}}},
        # At a low rate, a fresh cycle would have a fuller allowance than the one with cached state.
        "cycle": {"explanationsPerSecond": 1000},
        "timeouts": {"endedJobSeconds": 900},
    }
)
TEMPLATES: tuple[dict[str, Any], ...] = (
    {},
    {"nodeSelector": {"disk": "ssd"}},
    {"tolerations": [{"key": "team", "operator": "Exists"}]},
)

_ADVICE = (
    "ahead",
    "ahead_elsewhere",
    "estimated_start",
    "estimate_basis",
    "alternatives",
    "speeds",
    "estimated_at",
)


class WithMemory(RuleBasedStateMachine):
    """A cluster as the cache sees it; events may be doubled, and writes may come to nothing."""

    def __init__(self) -> None:
        super().__init__()
        # What the decision before left idle is the one thing that a new scheduler cannot know.
        self._idle = patch.object(Contention, "set_idle", lambda self, percent: None)
        self._idle.start()
        self.now = NOW
        self.versions = 1
        self.made = 0
        self.named = {"tenantd/notebook"}
        """Keys of all jobs that there ever were, and of pods that are none of ours."""
        self.cache = ClusterCache(lambda: self.now)
        self.raw: dict[str, dict[str, Any]] = {}
        self.remembering = Cycle(CONFIG)
        self.refusals: dict[tuple[str, int], str] = {}
        self.written: dict[str, float] = {}

    def teardown(self) -> None:
        self._idle.stop()

    # ---- the cluster

    def put(self, store: str, name: str, raw: dict[str, Any]) -> None:
        """Have the cache hear of an object, twice."""
        self.versions += 1
        raw["metadata"]["resourceVersion"] = str(self.versions)
        self.raw[f"{store}/{name}"] = raw
        getattr(self.cache, store).observe(raw)
        getattr(self.cache, store).observe(raw)

    def drop(self, store: str, name: str) -> None:
        getattr(self.cache, store).forget(self.raw.pop(f"{store}/{name}")["metadata"])

    def known(self, store: str) -> list[str]:
        return sorted(key.split("/", 1)[1] for key in self.raw if key.startswith(f"{store}/"))

    @initialize(gpus=st.integers(1, 3), running=st.integers(0, 2), waiting=st.integers(0, 2))
    def begin(self, gpus: int, running: int, waiting: int) -> None:
        for name in NODES[:2]:
            self.add_node(name, gpus)
        for _ in range(running):
            self.submit(1, None, {}, None)
        self.cycle("all")
        for gang in self.gangs().values():
            self.run_pods(gang)
        for _ in range(waiting):
            self.submit(2, None, {}, None)

    def add_node(self, name: str, gpus: int) -> None:
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": format_time(self.now)}
        labels = {"disk": "ssd"} if name == "n1" else {}
        node = {
            "metadata": {"name": name, "uid": f"node-{name}", "labels": labels},
            "spec": {},
            "status": {"conditions": [ready], "allocatable": {"cpu": "4", "pods": "8"}},
        }
        self.put("nodes", name, node)
        says = {**ready, "reason": "Tested", "message": ""}
        status = {"conditions": [says], "gpus": [a_gpu(name, index) for index in range(gpus)]}
        self.put("gpu_nodes", name, {"metadata": {"name": name, "uid": f"gpu-{name}"}, "status": status})

    # ---- what happens

    @rule(
        workers=st.integers(1, 3),
        share=st.sampled_from([None, 40]),
        template=st.sampled_from(TEMPLATES),
        priority=st.sampled_from([None, "urgent"]),
        cpu=st.sampled_from([None, "1500m", "3"]),
        elastic=st.booleans(),
    )
    def submit(
        self,
        workers: int,
        share: int | None,
        template: dict[str, Any],
        priority: str | None,
        cpu: str | None = None,
        elastic: bool = False,
    ) -> None:
        name, namespace = f"j{self.made}", TENANTS[self.made % len(TENANTS)]
        self.made += 1
        self.named.add(f"{namespace}/{name}")
        gpus = (
            {"type": "Count", "count": 1}
            if share is None or workers > 1
            else {"type": "Share", "sharePercent": share}
        )
        container: dict[str, Any] = {"name": "trainer", "image": f"i{self.made % 2}"}
        if cpu:
            container["resources"] = {"requests": {"cpu": cpu}}
        fields: dict[str, Any] = {
            "workers": workers,
            "gpus": gpus,
            "template": {"spec": {"containers": [container], **template}},
        }
        if elastic:
            fields |= {"minWorkers": 1, "maxWorkers": 3}
        if priority:
            fields["priorityClassName"] = priority
        job = (
            a_job(name).spec(**fields).metadata(namespace=namespace, creationTimestamp=format_time(self.now))
        )
        self.put("jobs", name, job.raw)

    @rule(data=st.data(), change=st.sampled_from(["suspend", "delete", "spoil", "touch", "scale", "scale"]))
    def change_job(self, data: st.DataObject, change: str) -> None:
        if not self.known("jobs"):
            return
        name = data.draw(st.sampled_from(self.known("jobs")))
        raw = self.raw[f"jobs/{name}"]
        if change == "delete":
            self.drop("jobs", name)
        elif change == "spoil":
            self.put("jobs", name, {**raw, "status": {"attempt": "many"}})
        else:
            spec = dict(raw["spec"])
            if change == "suspend":
                spec["suspend"] = not spec.get("suspend", False)
            elif change == "scale" and "maxWorkers" in spec:
                spec["workers"] = data.draw(st.integers(1, 3))
            metadata = {**raw["metadata"], "generation": raw["metadata"]["generation"] + 1}
            self.put("jobs", name, {**raw, "metadata": metadata, "spec": spec})

    @rule(
        data=st.data(),
        phase=st.sampled_from(["Running", "Running", "Succeeded", "Failed", "gone", "deleting", "refused"]),
    )
    def change_pod(self, data: st.DataObject, phase: str) -> None:
        if not self.known("pods"):
            return
        name = data.draw(st.sampled_from(self.known("pods")))
        raw = dict(self.raw[f"pods/{name}"])
        if phase == "gone":
            self.drop("pods", name)
            return
        if phase == "refused":
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
            since = {"lastTransitionTime": format_time(self.now - 60)}
            raw["status"] = {"phase": "Pending", "conditions": [{**condition, **since}]}
        elif phase == "deleting":
            raw["metadata"] = {**raw["metadata"], "deletionTimestamp": format_time(self.now)}
        else:
            raw["spec"] = {**raw["spec"], "nodeName": _pinned(raw)}
            raw["status"] = {"phase": phase, "containerStatuses": [_container(phase, self.now)]}
        self.put("pods", name, raw)

    @rule(data=st.data())
    def run_a_gang(self, data: st.DataObject) -> None:
        """All pods of a job run, and their nodes report them where they were placed."""
        gangs = self.gangs()
        if gangs:
            self.run_pods(gangs[data.draw(st.sampled_from(sorted(gangs)))])

    def run_pods(self, pods: list[str]) -> None:
        for name in pods:
            raw = dict(self.raw[f"pods/{name}"])
            node = _pinned(raw)
            raw["spec"] = {**raw["spec"], "nodeName": node}
            raw["status"] = {"phase": "Running", "containerStatuses": [_container("Running", self.now)]}
            self.put("pods", name, raw)
            if f"gpu_nodes/{node}" not in self.raw:
                continue
            gpu_node = self.raw[f"gpu_nodes/{node}"]
            gpus = [dict(gpu) for gpu in gpu_node["status"]["gpus"]]
            for gpu in gpus:
                if gpu["uuid"] in raw["metadata"]["annotations"][names.GPUS_ANNOTATION].split(","):
                    gpu["sessions"] = [*gpu["sessions"], _session(raw, self.versions)]
            self.put("gpu_nodes", node, {**gpu_node, "status": {**gpu_node["status"], "gpus": gpus}})

    @rule(data=st.data(), at_once=st.booleans())
    def lose_a_gang(self, data: st.DataObject, at_once: bool) -> None:
        """A job vanishes, and with it or after it all of its pods, as where a relist finds none of them."""
        gangs = self.gangs()
        if not gangs:
            return
        job = data.draw(st.sampled_from(sorted(gangs)))
        if f"jobs/{job}" in self.raw:
            self.drop("jobs", job)
        if not at_once:
            self.decides_the_same()
        for name in gangs[job]:
            self.drop("pods", name)

    def gangs(self) -> dict[str, list[str]]:
        """The names of pods by the name of their job, which may be gone."""
        found: dict[str, list[str]] = {}
        for name in self.known("pods"):
            job = self.raw[f"pods/{name}"]["metadata"]["labels"][names.JOB_LABEL]
            found.setdefault(job, []).append(name)
        return found

    @rule(
        data=st.data(),
        change=st.sampled_from(["session", "ended", "plain", "figures", "sick", "unready", "others"]),
    )
    def report(self, data: st.DataObject, change: str) -> None:
        node = data.draw(st.sampled_from(self.known("gpu_nodes")))
        raw = dict(self.raw[f"gpu_nodes/{node}"])
        gpus = [dict(gpu) for gpu in raw["status"]["gpus"]]
        gpu = data.draw(st.sampled_from(gpus))
        sessions = [dict(each) for each in gpu["sessions"]]
        mine = [name for name in self.known("pods") if _pinned(self.raw[f"pods/{name}"]) == node]
        if change == "session" and mine:
            sessions.append(_session(self.raw[f"pods/{data.draw(st.sampled_from(mine))}"], self.versions))
        elif change == "plain":
            sessions = (
                []
                if sessions
                else [a_plain_session("notebook", 30, namespace="tenantd", key=f"p{self.versions}")]
            )
        elif change == "figures" and sessions:
            measured = {"profiled": True, "persistentBytes": 3 * GIB, "ephemeralBytes": GIB}
            sessions[0] |= {**measured, "iterations": 7 + self.versions, "turns": self.versions}
        elif change == "ended" and sessions:
            sessions[0]["state"] = "Ended"
        elif change == "sick":
            gpu["healthy"] = not gpu["healthy"]
            gpu["unhealthySince"] = format_time(self.now)
        ready = dict(raw["status"]["conditions"][0])
        if change == "unready":
            ready["status"] = "False" if ready["status"] == "True" else "True"
        others = raw["status"].get("otherPodsRequests")
        if change == "others":
            others = None if others else {"cpu": "2", "pods": "1"}
        gpu["sessions"] = sessions
        status = {"conditions": [ready], "gpus": gpus, "otherPodsRequests": others}
        self.put("gpu_nodes", node, {**raw, "status": status})

    @rule(data=st.data(), change=st.sampled_from(["cordon", "ready", "taint", "gone", "third", "grow"]))
    def change_node(self, data: st.DataObject, change: str) -> None:
        if change == "third":
            if "n3" in self.known("nodes"):
                self.drop("nodes", "n3")
                self.drop("gpu_nodes", "n3")
            else:
                self.add_node("n3", 2)
            return
        name = data.draw(st.sampled_from(NODES[:2]))
        if change == "gone":
            if f"nodes/{name}" in self.raw:
                self.drop("nodes", name)
            return
        if f"nodes/{name}" not in self.raw:
            return
        raw = self.raw[f"nodes/{name}"]
        spec, ready = dict(raw["spec"]), dict(raw["status"]["conditions"][0])
        offers = raw["status"]["allocatable"]
        if change == "cordon":
            spec["unschedulable"] = not spec.get("unschedulable", False)
        elif change == "grow":
            offers = {"cpu": "8" if offers["cpu"] == "4" else "4", "pods": "8"}
        elif change == "taint":
            spec["taints"] = (
                [] if spec.get("taints") else [{"key": "team", "value": "x", "effect": "NoSchedule"}]
            )
        else:
            ready["status"] = "False" if ready["status"] == "True" else "True"
            ready["lastTransitionTime"] = format_time(self.now)
        status = {"conditions": [ready], "allocatable": offers}
        self.put("nodes", name, {**raw, "spec": spec, "status": status})

    @rule()
    def add_or_remove_class(self) -> None:
        if "urgent" in self.known("priority_classes"):
            self.drop("priority_classes", "urgent")
        else:
            raw = {"metadata": {"name": "urgent", "uid": "class-urgent"}, "value": 100}
            self.put("priority_classes", "urgent", raw)

    @rule(data=st.data())
    def refuse_an_object(self, data: st.DataObject) -> None:
        if self.known("jobs"):
            raw = self.raw[f"jobs/{data.draw(st.sampled_from(self.known('jobs')))}"]
            attempt = raw.get("status", {}).get("attempt", 0)
            if isinstance(attempt, int):
                self.refusals[raw["metadata"]["uid"], attempt] = "no"

    @rule(seconds=st.sampled_from([0.5, 4.0, 11.0, 61.0, 130.0, 700.0]))
    def wait(self, seconds: float) -> None:
        """Have time pass; no agent is heard of meanwhile."""
        self.now += seconds
        self.cache.heartbeats.listed({}, self.known("gpu_nodes"), seconds)

    @rule(data=st.data(), seconds=st.sampled_from([None, 0, 2000]))
    def change_time_to_live(self, data: st.DataObject, seconds: int | None) -> None:
        if self.known("jobs"):
            name = data.draw(st.sampled_from(self.known("jobs")))
            raw = self.raw[f"jobs/{name}"]
            metadata = {**raw["metadata"], "generation": raw["metadata"]["generation"] + 1}
            spec = {**raw["spec"], "ttlSecondsAfterFinished": seconds}
            self.put("jobs", name, {**raw, "metadata": metadata, "spec": spec})

    @rule(data=st.data(), with_pods=st.booleans())
    def end_a_job(self, data: st.DataObject, with_pods: bool) -> None:
        """Its status says that it has ended; its workers may still run."""
        running = [record for record in self.cache.jobs.records() if record.placed]
        if not running:
            return
        job = data.draw(st.sampled_from(sorted(running, key=lambda record: record.name)))
        status = transitions.succeeded(job.status, "done", self.now, self.now)
        self.put("jobs", job.name, {**self.raw[f"jobs/{job.name}"], "status": status.to_json()})
        for pod in () if with_pods else self.gangs().get(job.name, ()):
            self.drop("pods", pod)

    @rule()
    def list_everything(self) -> None:
        self.cache.condense_ended_jobs()

    @rule(data=st.data())
    def list_everything_as_workers_go(self, data: st.DataObject) -> None:
        self.now += 400.0
        self.list_everything()
        for job in data.draw(st.sets(st.sampled_from(sorted(self.gangs())))) if self.gangs() else ():
            for pod in self.gangs()[job]:
                self.drop("pods", pod)

    @rule(carried_out=st.sampled_from(["all", "all", "statuses", "nothing"]))
    def cycle(self, carried_out: str) -> None:
        """Decide, and carry that out; or be stopped in the middle of it, or at once."""
        for write in self.decided().writes:
            if carried_out != "nothing":
                self.carry_out(write, whole=carried_out == "all")

    @rule()
    def write_profiles(self) -> None:
        """Write what templates are known by."""
        for write in self.decided().profiles:
            metadata = {"name": write.name, "namespace": write.namespace, "uid": f"uid-{write.name}"}
            self.put("profiles", write.name, {"metadata": metadata, "status": write.status.to_json()})

    @rule(data=st.data())
    def spoil_a_profile(self, data: st.DataObject) -> None:
        """Somebody else writes one that cannot be read."""
        if self.known("profiles"):
            name = data.draw(st.sampled_from(self.known("profiles")))
            metadata = dict(self.raw[f"profiles/{name}"]["metadata"])
            self.put("profiles", name, {"metadata": metadata, "status": {"models": 7}})

    @rule()
    def cycle_while_writes_are_in_flight(self) -> None:
        """Jobs with writes in flight are left alone until these have ended."""
        first = self.decided()
        in_flight = {write.job.uid for write in first.writes}
        second = self.remembering.run(self.state(), self.history(), self.now, in_flight)
        assert in_flight.isdisjoint(write.job.uid for write in second.writes)
        # One whose attempt ends first, by a write of its own, is decided about again.
        assert {write.job.key for write in first.writes if write.takes}.isdisjoint(second.decision.starts)
        for write in first.writes:
            self.carry_out(write, whole=True)

    # ---- what must hold

    @invariant()
    def decides_the_same(self) -> None:
        if not self.raw:
            return
        fresh_cycle = Cycle(CONFIG)
        fresh = fresh_cycle.run(self.state(), self.history(), self.now)
        remembered = self.decided()
        assert remembered.decision == fresh.decision
        for key, workers in remembered.decision.starts.items():
            assert len(workers) == self.raw[f"jobs/{key.split('/')[1]}"]["spec"]["workers"]
        assert scheduler_input(self.remembering._sync) == scheduler_input(fresh_cycle._sync)
        assert remembered.waiting == fresh.waiting
        assert list(remembered.waiting) == list(fresh.waiting)
        assert _without_estimates(remembered) == _without_estimates(fresh)
        assert remembered.orders == fresh.orders
        assert remembered.profiles == fresh.profiles
        assert _gauges(self.remembering, self.now) == _gauges(fresh_cycle, self.now)

    # ---- the operator

    def state(self) -> ClusterState:
        return self.cache.state(CONFIG.timeouts.silent_node_seconds)

    def history(self) -> WriteHistory:
        return WriteHistory(self.refusals, self.written, watched_since_seconds=NOW)

    def decided(self) -> CycleResult:
        result = self.remembering.run(self.state(), self.history(), self.now)
        assert result.problem == ""
        for write in result.writes:
            assert foreign_names(write.after, self.named) == set()
        return result

    def carry_out(self, write: JobWrite, whole: bool) -> None:
        job = write.job
        raw = self.raw[f"jobs/{job.name}"]
        if write.writes_status:
            self.put("jobs", job.name, {**raw, "status": write.status.to_json()})
            self.written[job.uid] = self.now
        if not whole:
            return
        for worker in write.creates:
            assert job.desired is not None
            spec = job.desired.spec.with_workers(len(write.status.placement))
            pod = worker_pod(job, spec, worker, write.status.attempt)
            name = pod["metadata"]["name"]
            pod["metadata"]["uid"] = f"uid-{self.versions}"
            pod["status"] = {"phase": "Pending"}
            if f"pods/{name}" not in self.raw:
                self.put("pods", name, pod)
        for pods_to_delete in write.after.pods_to_delete:
            if f"pods/{pods_to_delete.name}" in self.raw:
                self.drop("pods", pods_to_delete.name)
        if write.after.expired:
            self.drop("jobs", job.name)


def _without_estimates(result: CycleResult) -> dict[str, JobWrite]:
    """The writes by uid, without the periodic estimates of waiting jobs, and without when figures came: a fresh cycle has just
    seen them. Nor are there deletions of jobs that ended long ago: a fresh cycle has just seen when they expire."""
    found = {}
    for write in result.writes:
        if write.job.settled and write.after.expired:
            continue
        status, known = _without_times(write.status), _without_times(write.job.status)
        after = write.after
        acts = (
            write.creates
            or after.pods_to_delete
            or after.pods_to_force_delete
            or after.events
            or after.expired
        )
        if acts or status != known:
            found[write.job.uid] = replace(write, after=replace(after, job=after.job.with_status(status)))
    return found


def _gauges(cycle: Cycle, now: float) -> dict[tuple[str, ...], float]:
    """What the metrics show, without the held GPU time since the last count: a fresh cycle knows no parts of earlier moments."""
    shown = samples_of(cycle.gauges(now))
    return {name: value for name, value in shown.items() if name[0] != "laneway_job_held_gpu_seconds"}


def _without_times(status: TrainingJobStatus) -> TrainingJobStatus:
    status = status.model_copy(
        update={"held_gpu_milliseconds": 0}
    )  # a fresh cycle knows no parts of earlier moments
    if status.progress is not None:
        progress = status.progress.model_copy(update={"updated_at": None})
        status = status.model_copy(update={"progress": progress})
    if status.waiting is None:
        return status
    plain = {name: getattr(WaitingStatus(reason="", message=""), name) for name in _ADVICE}
    return status.model_copy(update={"waiting": status.waiting.model_copy(update=plain)})


def _pinned(pod: dict[str, Any]) -> str:
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(required["nodeSelectorTerms"][0]["matchFields"][-1]["values"][0])


def _container(phase: str, now: float) -> dict[str, Any]:
    trainer = {"name": "trainer", "imageID": f"sha256:{int(now) % 2}"}
    if phase == "Running":
        return {**trainer, "state": {"running": {"startedAt": format_time(now)}}}
    code = 0 if phase == "Succeeded" else 1
    ended = {"exitCode": code, "startedAt": format_time(now), "finishedAt": format_time(now)}
    return {**trainer, "state": {"terminated": ended}}


def _session(pod: dict[str, Any], number: int) -> dict[str, Any]:
    job = pod["metadata"]["labels"][names.JOB_LABEL]
    return a_session(parse_worker_pod(pod), key=f"s{number}", sharePercent=40, job=job, rank=0)
