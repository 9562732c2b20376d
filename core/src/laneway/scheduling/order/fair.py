"""Max-min fairness between namespaces, with weights: the namespace with the least service for its weight goes first.

Jobs are taken one by one, each from the namespace with the least service over weight; within a namespace, running jobs come
first. The service that the jobs taken so far will attain in the next interval counts as well. This is progressive filling
(Bertsekas and Gallager, Data Networks, section 6.5.2), as in dominant resource fairness (Ghodsi et al., NSDI'11, section 4.1)
with GPUs as the one resource. Without history, two gangs that each need the whole cluster would never take turns. With all of
history, a namespace that used an idle cluster alone would be shut out for as long. So a lead counts up to ``memory_seconds``.
History is the attained service of unfinished jobs only.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from types import MappingProxyType

from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.order.by_position import ByPosition
from laneway.scheduling.order.policy import Rank
from laneway.scheduling.order.remaining import demanded_gpus


@dataclass(frozen=True, slots=True)
class Fair(ByPosition):
    """The namespace with the least GPU service over its weight goes first."""

    weights: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """The weight of each namespace; 1 for namespaces that are not named."""

    interval_seconds: float = 600.0
    """How long a decision holds. A job is preempted by a job of another namespace whose service over weight, an interval
    later, will not exceed that of the job's own namespace now. A preemption costs some 50 s (Tiresias, section 5; Lucid,
    section 2), so two gangs that take turns lose at most 8 percent to it."""

    memory_seconds: float = 3600.0
    """The most lead that counts: what a namespace's share of the cluster attains in this time. 0: only the GPUs held
    count."""

    def __post_init__(self) -> None:
        for namespace, weight in self.weights.items():
            if weight <= 0:
                raise ValueError(f"the weight of namespace {namespace} is {weight}: write a number above 0")
        if self.interval_seconds <= 0:
            raise ValueError(f"interval_seconds is {self.interval_seconds}: write a time above 0")
        if self.memory_seconds < 0:
            raise ValueError(f"memory_seconds is {self.memory_seconds}: write 0 or more")

    @property
    def relative(self) -> bool:
        """Yes: the service of a namespace is the sum over its jobs."""
        return True

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return each job's place: its namespace's service over weight before the job, and with it."""
        of: dict[str, list[Job]] = {}
        for job in jobs:
            of.setdefault(job.namespace, []).append(job)
        leads = self._leads(of, cluster_gpus, now_seconds)
        ranks: dict[str, Rank] = {}
        for namespace, its_jobs in of.items():
            interval = self.interval_seconds / self._weight(namespace)
            had = leads[namespace]
            for competes, job in _in_turn(its_jobs):
                had_with_it = had + interval * demanded_gpus(job)
                ranks[job.key] = Rank(0, (had, had_with_it))
                if competes and job.demand.gpus <= cluster_gpus:
                    had = had_with_it
        return ranks

    def may_preempt(self, waiting: Rank, running: Rank) -> bool:
        """Whether the waiting job's namespace, with it, will have no more service than the other's without its job."""
        _, had_with_it = waiting.position
        had, _ = running.position
        return had_with_it <= had

    def _leads(
        self, of: Mapping[str, Collection[Job]], cluster_gpus: int, now_seconds: float
    ) -> Mapping[str, float]:
        """Return, by namespace, its lead in service over weight over the last namespace, bounded."""
        competing = {namespace: jobs for namespace, jobs in of.items() if any(map(_competes, jobs))}
        served = {
            namespace: math.fsum(job.service_gpu_seconds(now_seconds) for job in jobs)
            / self._weight(namespace)
            for namespace, jobs in competing.items()
        }
        weights = math.fsum(map(self._weight, competing))
        least = min(served.values(), default=0.0)
        most = self.memory_seconds * cluster_gpus / weights if weights else 0.0
        return {namespace: min(served.get(namespace, least) - least, most) for namespace in of}

    def _weight(self, namespace: str) -> float:
        return self.weights.get(namespace, 1.0)


def _competes(job: Job) -> bool:
    """Whether a job holds GPUs or competes for them."""
    return not job.state.is_releasing and not job.suspended


def _in_turn(jobs: Collection[Job]) -> list[tuple[bool, Job]]:
    """Return a namespace's jobs, and whether they compete: those that run by start, then those that wait by creation,
    then those that do not compete; higher priorities first."""
    turns = []
    for job in jobs:
        runs = job.state is JobState.RUNNING or job.state is JobState.STARTING
        since = job.started_seconds if runs and job.started_seconds is not None else job.created_seconds
        competes = _competes(job)
        turns.append(
            ((not competes, -job.priority, not runs, since, job.created_seconds, job.key), competes, job)
        )
    turns.sort(key=itemgetter(0))
    return [(competes, job) for _, competes, job in turns]
