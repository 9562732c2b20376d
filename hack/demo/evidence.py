"""Collects what happens while the jobs run: the evidence for the claims and for the final table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from laneway.api import names
from laneway.api.training_job_status import WorkerPlacementStatus

from hack.demo.jobs import JobView
from hack.demo.output import WorkerOutput
from hack.demo.turns import Turn


@dataclass
class Evidence:
    """Everything observed so far."""

    jobs: dict[str, JobView] = field(default_factory=dict)
    """As last seen."""
    placements: dict[str, tuple[WorkerPlacementStatus, ...]] = field(default_factory=dict)
    """The last known placement of each job; a finished job may have none."""
    pods: dict[str, set[str]] = field(default_factory=dict)
    """The uids of all pods of each job, past and present."""
    waited: dict[str, str] = field(default_factory=dict)
    """The operator's last message to a job while it waited for GPUs."""
    preempted_by: dict[str, str] = field(default_factory=dict)
    """The operator's message when it preempted a job."""
    turns: Sequence[Turn] = ()
    outputs: Mapping[str, Sequence[WorkerOutput]] = field(default_factory=dict)
    """Output of each job's first worker, by attempt."""
    accuracies: Mapping[str, float] = field(default_factory=dict)
    quota_bytes: dict[str, int] = field(default_factory=dict)
    """GPU memory quota of one worker of a job, as the node reports it."""

    def see_jobs(self, views: Mapping[str, JobView]) -> None:
        """Record the current jobs."""
        for name, view in views.items():
            self.jobs[name] = view
            if view.status.placement:
                self.placements[name] = view.status.placement
            if view.status.waiting is not None and not view.status.placement:
                self.waited[name] = view.status.waiting.message
            if view.has("Preempted"):
                self.preempted_by[name] = view.message("Preempted")

    def see_pods(self, pods: Sequence[Mapping[str, Any]]) -> None:
        """Record the current pods."""
        for pod in pods:
            job = pod["metadata"]["labels"][names.JOB_LABEL]
            self.pods.setdefault(job, set()).add(pod["metadata"]["uid"])

    def see_gpu_nodes(self, gpu_nodes: Sequence[Mapping[str, Any]]) -> None:
        """Record the sessions that the nodes report."""
        for node in gpu_nodes:
            for gpu in (node.get("status") or {}).get("gpus") or ():
                for session in gpu.get("sessions") or ():
                    if session.get("job"):
                        self.quota_bytes[session["job"]] = session["quotaBytes"]

    def turns_of(self, *jobs: str) -> list[Turn]:
        """Return the turns of these jobs in the order of their start."""
        return [turn for turn in self.turns if turn.job in jobs]

    def nodes_of(self, job: str) -> set[str]:
        """Return the nodes of a job's last placement."""
        return {worker.node for worker in self.placements.get(job, ())}
