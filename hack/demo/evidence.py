"""What is gathered while the jobs run, for the claims to be checked against and for the table at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from laneway.api import names
from laneway.api.training_job import WorkerPlacementStatus

from hack.demo.jobs import JobView
from hack.demo.output import WorkerOutput
from hack.demo.turns import Turn


@dataclass
class Evidence:
    """Grows with every look at the cluster."""

    jobs: dict[str, JobView] = field(default_factory=dict)
    """As last seen."""
    placements: dict[str, tuple[WorkerPlacementStatus, ...]] = field(default_factory=dict)
    """The last placement that each job had: an ended job may have none any more."""
    pods: dict[str, set[str]] = field(default_factory=dict)
    """The uids of all pods that each job ever had."""
    preempted_by: dict[str, str] = field(default_factory=dict)
    """What the operator said when it preempted a job."""
    turns: Sequence[Turn] = ()
    outputs: Mapping[str, Sequence[WorkerOutput]] = field(default_factory=dict)
    """Of each job's first worker, attempt by attempt."""
    accuracies: Mapping[str, float] = field(default_factory=dict)
    quota_bytes: dict[str, int] = field(default_factory=dict)
    """What one worker of a job may hold of its GPU's memory, as the node says."""

    def see_jobs(self, views: Mapping[str, JobView]) -> None:
        """Take in the jobs as they are now."""
        for name, view in views.items():
            self.jobs[name] = view
            if view.status.placement:
                self.placements[name] = view.status.placement
            if view.has("Preempted"):
                self.preempted_by[name] = view.message("Preempted")

    def see_pods(self, pods: Sequence[Mapping[str, Any]]) -> None:
        """Take in the pods as they are now."""
        for pod in pods:
            job = pod["metadata"]["labels"][names.JOB_LABEL]
            self.pods.setdefault(job, set()).add(pod["metadata"]["uid"])

    def see_gpu_nodes(self, gpu_nodes: Sequence[Mapping[str, Any]]) -> None:
        """Take in what the nodes say about the jobs' sessions."""
        for node in gpu_nodes:
            for gpu in (node.get("status") or {}).get("gpus") or ():
                for session in gpu.get("sessions") or ():
                    if session.get("job"):
                        self.quota_bytes[session["job"]] = session["quotaBytes"]

    def turns_of(self, *jobs: str) -> list[Turn]:
        """The turns of these jobs, in the order of their start."""
        return [turn for turn in self.turns if turn.job in jobs]

    def nodes_of(self, job: str) -> set[str]:
        """The nodes that a job was last placed on."""
        return {worker.node for worker in self.placements.get(job, ())}
