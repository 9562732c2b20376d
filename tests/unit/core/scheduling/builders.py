"""Fluent builders of snapshots: ``a_job("a").gangs(2).waiting(since=5).made``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from laneway.api.enforcement import Enforcement
from laneway.lanes import LaneRules
from laneway.scheduling import (
    GPU,
    ClusterSnapshot,
    Demand,
    ForeignTenant,
    Job,
    JobState,
    Node,
    PlacementMode,
    Plan,
    Policies,
    Profile,
    WorkerPlacement,
    policies,
)

from tests.unit.core.scheduling.whole_plan import plan

GIB = 2**30
NOW = 1000.0


def a_node(
    name: str,
    gpus: int = 4,
    *,
    model: str = "A100",
    memory: int = 40 * GIB,
    percent: int = 100,
    cordoned: bool = False,
    sick: Sequence[int] = (),
    foreign: Mapping[int, Sequence[ForeignTenant]] | None = None,
    lanes: LaneRules | None = None,
    enforcement: str = "Watchdog",
) -> Node:
    """A node whose GPUs are named ``<node>/<index>``."""
    return Node(
        name,
        tuple(
            GPU(
                f"{name}/{index}",
                name,
                index,
                model,
                memory,
                memory,
                percent,
                healthy=index not in sick,
                foreign=tuple((foreign or {}).get(index, ())),
                lane_rules=lanes or LaneRules(padding_percent=0),
                enforcement=Enforcement(enforcement),
            )
            for index in range(gpus)
        ),
        schedulable=not cordoned,
        reason="it is cordoned" if cordoned else "",
    )


@dataclass(frozen=True)
class JobBuilder:
    """A job in the making; each method returns a new builder."""

    made: Job

    def needs(self, workers: int = 1, **demand: Any) -> JobBuilder:
        """Its gang's demand."""
        if "models" in demand:
            demand["models"] = frozenset(demand["models"])
        return self._with(demand=Demand(workers, **demand))

    def share(self, percent: int) -> JobBuilder:
        """One worker with a part of a GPU."""
        return self.needs(share_percent=percent)

    def laid(self, mode: PlacementMode) -> JobBuilder:
        """How it is laid over nodes."""
        return self._with(demand=replace(self.made.demand, mode=mode))

    def created(self, seconds: float) -> JobBuilder:
        return self._with(created_seconds=seconds)

    def priority(self, value: int) -> JobBuilder:
        return self._with(priority=value)

    def served(self, gpu_seconds: float, executed: float | None = None) -> JobBuilder:
        """Its service so far."""
        return self._with(
            attained_service_gpu_seconds=gpu_seconds,
            executed_seconds=gpu_seconds if executed is None else executed,
        )

    def promoted_at(self, gpu_seconds: float) -> JobBuilder:
        return self._with(service_at_promotion_gpu_seconds=gpu_seconds)

    def waiting(self, since: float) -> JobBuilder:
        return self._with(waiting_since_seconds=since)

    def runs_on(self, *gpus: str, since: float = 0.0, state: JobState = JobState.RUNNING) -> JobBuilder:
        """It has these GPUs, dealt to its workers in turn."""
        demand = self.made.demand
        size = demand.gpus_per_worker
        workers = tuple(
            WorkerPlacement(
                rank,
                gpus[rank * size].partition("/")[0],
                gpus[rank * size : (rank + 1) * size],
                demand.share_percent,
            )
            for rank in range(demand.workers)
        )
        return self._with(state=state, placement=workers, started_seconds=since)

    def leaves(self, *gpus: str) -> JobBuilder:
        return self.runs_on(*gpus, state=JobState.TERMINATING)

    def starts_on(self, *gpus: str) -> JobBuilder:
        return self.runs_on(*gpus, state=JobState.STARTING)._with(started_seconds=None)

    def profiled(self, persistent: int, ephemeral: int) -> JobBuilder:
        return self._with(profile=Profile(persistent, ephemeral))

    def never_preempted(self) -> JobBuilder:
        return self._with(preemptible=False)

    def suspended(self) -> JobBuilder:
        return self._with(suspended=True)

    def _with(self, **changes: Any) -> JobBuilder:
        return JobBuilder(replace(self.made, **changes))


def a_job(name: str) -> JobBuilder:
    """A job that waits for one whole GPU since time 0."""
    return JobBuilder(Job(name, Demand(), created_seconds=0.0))


def a_snapshot(
    nodes: Sequence[Node], *jobs: JobBuilder, avoid: Mapping[str, frozenset[str]] | None = None
) -> ClusterSnapshot:
    return ClusterSnapshot(tuple(nodes), tuple(job.made for job in jobs), avoid or {})


def eager(order: str = "tiresias-las", **options: object) -> Policies:
    """Policies that preempt without a minimum run."""
    return policies(order=order, order_options=options, preemption_options={"min_run_seconds": 0})


def planned(
    nodes: Sequence[Node],
    *jobs: JobBuilder,
    by: Policies | None = None,
    avoid: Mapping[str, frozenset[str]] | None = None,
) -> Plan:
    """The plan for these nodes and jobs at ``NOW``."""
    return plan(a_snapshot(nodes, *jobs, avoid=avoid), NOW, by or eager())


def gpus_of(found: Plan, job: str) -> list[str]:
    """The GPUs that a job starts on, by rank."""
    return [uuid for worker in found.starts[job] for uuid in worker.gpus]
