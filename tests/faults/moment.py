"""What the cluster was at one moment: jobs, pods and GPUNodes, and what they say about one another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from laneway.api import names
from laneway.operator.state.resources import GPU_NODES, TRAINING_JOBS

from tests.faults.history import Change

Raw = dict[str, Any]
Worker = tuple[str, int, int]
"""Its job's uid, the attempt and the rank."""

STANDS = {"Pause": frozenset({"Paused", "Offloaded"}), "Offload": frozenset({"Offloaded"})}
"""By order: the states of a session that has followed it."""


@dataclass(slots=True)
class Moment:
    """The objects of one moment, by uid."""

    jobs: dict[str, Raw] = field(default_factory=dict)
    pods: dict[str, Raw] = field(default_factory=dict)
    nodes: dict[str, Raw] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    """The pods that were made by a write that was in mid-air when its sender's turn ended."""

    def follow(self, change: Change) -> tuple[Raw | None, Raw | None]:
        """Take a change over; return the object before and after it."""
        objects = self.nodes if change.kind == GPU_NODES.kind else self.pods
        if change.kind == TRAINING_JOBS.kind:
            objects = self.jobs
        uid = change.object["metadata"]["uid"]
        before = objects.get(uid)
        if change.deleted:
            objects.pop(uid, None)
            return before, None
        objects[uid] = change.object
        return before, change.object

    @property
    def gpus(self) -> Iterator[Raw]:
        """What the nodes say of their GPUs."""
        for node in self.nodes.values():
            yield from (node.get("status") or {}).get("gpus") or ()

    @property
    def orders(self) -> dict[str, str]:
        """The current orders, by the uid of the pod."""
        return {uid: order for node in self.nodes.values() for uid, order in orders_of(node).items()}

    def states(self, pod_uid: str) -> list[str]:
        """Return the states of a pod's sessions."""
        sessions = [session for gpu in self.gpus for session in gpu.get("sessions") or ()]
        return [session["state"] for session in sessions if session["podUID"] == pod_uid]

    def has_followed(self, pod: Raw, order: str) -> bool:
        """Whether the node reports that a pod has followed its order."""
        states = self.states(pod["metadata"]["uid"])
        return bool(states) and all(state in STANDS[order] for state in states)

    def standing_aside(self) -> set[Worker]:
        """Return the paused and offloaded workers: they have followed their order, and their job has not resumed."""
        orders = self.orders
        return {
            worker_of(pod)
            for uid, pod in self.pods.items()
            if uid in orders and self.has_followed(pod, orders[uid]) and not self._goes_on(worker_of(pod)[0])
        }

    def _goes_on(self, job_uid: str) -> bool:
        job = self.jobs.get(job_uid, {})
        return preempted_in_place(job) is None and is_true(job, "Running")

    def name(self, job_uid: str) -> str:
        """Return a job's name, or its uid where it is gone."""
        job = self.jobs.get(job_uid)
        name: str = job["metadata"]["name"] if job else job_uid
        return name


def orders_of(node: Raw | None) -> dict[str, str]:
    """Return what a node is ordered, by the uid of the pod."""
    spec = (node or {}).get("spec") or {}
    return {each["podUID"]: each["order"] for each in spec.get("orders") or ()}


def preempted_in_place(job: Raw | None) -> tuple[str, bool] | None:
    """Returns the preemption action of a job that is preempted in place, and whether its status reports it as done; else None."""
    preemption = ((job or {}).get("status") or {}).get("preemption") or {}
    if preemption.get("action") not in STANDS:
        return None
    return preemption["action"], "reachedAt" in preemption


def is_true(job: Raw, kind: str) -> bool:
    """Whether a condition of a job holds."""
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def worker_of(pod: Raw) -> Worker:
    """Return whose worker a pod is."""
    labels = pod["metadata"]["labels"]
    return labels[names.JOB_UID_LABEL], int(labels[names.ATTEMPT_LABEL]), int(labels[names.RANK_LABEL])


def phase_of(pod: Raw) -> str:
    """Return a pod's phase."""
    phase: str = (pod.get("status") or {}).get("phase", "Pending")
    return phase


def has_ended(pod: Raw) -> bool:
    """Whether a pod's containers have ended."""
    return phase_of(pod) in ("Succeeded", "Failed")
