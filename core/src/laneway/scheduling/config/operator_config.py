"""``operator.yaml``: the policies, the time limits, the pace of the cycle, and where the operator listens.

The operator reads it, and the simulator, which models an operator with this configuration.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from laneway.api.gpu_sharing import ACTIVE_PERCENT, Sharing, SharingSwitch, refuse_replaced
from laneway.api.node_config import LaneConfig
from laneway.api.schema import Model
from laneway.lanes import LaneRules
from laneway.scheduling.config.registry import NO_POLICY, PRESETS, policies
from laneway.scheduling.config.stages import Policies
from laneway.scheduling.model.topology_levels import DEFAULT_LEVELS
from pydantic import Field, model_validator


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


class PolicyConfig(Model):
    """One stage of a decision: which policy, with which parameters."""

    policy: str = Field(description="The policy's name: one of Policies below.")
    options: dict[str, Any] = Field(default={}, description="The policy's parameters, in camelCase.")

    def parameters(self) -> dict[str, object]:
        """Return the options as the policy's fields are called."""
        return {
            _snake(name): tuple(value) if isinstance(value, list) else value
            for name, value in self.options.items()
        }


REPLACED = {
    "activePercent": "write sharing: lanes at the top of the file to let jobs share GPUs, or leave it out",
}
"""Names of older configuration files, with what to write instead."""

REPLACED_PLACEMENT = (
    "write sharing: lanes at the top of the file in place of the policy lanes, and its options below joining"
)


class JoiningConfig(Model):
    """With ``sharing: lanes``: when jobs join others on GPUs, and stay."""

    min_gain_ratio: float = Field(
        default=0.1,
        ge=0,
        le=1,
        description="The least gain in work on each GPU for a job to join others there; 1 is the work of a job alone.",
    )
    keep_gain_ratio: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="The least measured gain for a job to stay with others, at most minGainRatio.",
    )


LabelKey = Annotated[
    str,
    Field(
        max_length=317,
        pattern=r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    ),
]


class TopologyConfig(Model):
    """Which nodes are close to one another."""

    levels: tuple[LabelKey, ...] = Field(
        default=DEFAULT_LEVELS,
        max_length=8,
        description="Labels of nodes, from the widest level to the narrowest: nodes with equal values are in one zone, in one rack. The "
        "placement policies topology, consolidate and tiresias keep gangs in few of them, and so does a job's placement: Consolidate; the "
        "default best-fit reads none. No label for racks is standard: add the one that your nodes have. Empty: all nodes count as equally close.",
    )

    @model_validator(mode="after")
    def _levels_differ(self) -> Self:
        twice = sorted({level for level in self.levels if self.levels.count(level) > 1})
        if twice:
            raise ValueError(f"levels lists {', '.join(twice)} twice: write each label once")
        return self


class SchedulingConfig(Model):
    """The policies of each stage: admission, order, elastic, placement, allocation, preemption."""

    admission: tuple[PolicyConfig, ...] = Field(
        default=(),
        description="Policies that decide which jobs may compete, such as quotas of namespaces; all of them must admit a job.",
    )
    order: PolicyConfig = PolicyConfig(policy="multilevel-las")
    elastic: PolicyConfig = Field(
        default=PolicyConfig(policy=NO_POLICY),
        description="How many workers jobs with minWorkers and maxWorkers get; none: spec.workers.",
    )
    placement: PolicyConfig = PolicyConfig(policy="best-fit")
    allocation: PolicyConfig = PolicyConfig(policy=NO_POLICY)
    preemption: PolicyConfig = PolicyConfig(policy="lowest-first")
    topology: TopologyConfig = TopologyConfig()
    joining: JoiningConfig = JoiningConfig()
    spare_cpu_percent: int = Field(
        default=10,
        alias="spareCPUPercent",
        ge=0,
        le=100,
        description="Percent of a node's CPUs that the allocation policy leaves to other pods: no worker gets them beyond its "
        "request.",
    )

    @property
    def allocates(self) -> bool:
        """Whether CPUs are divided by a policy, and not only as pods request them."""
        return self.allocation.policy != NO_POLICY

    @property
    def elastic_policy(self) -> str:
        """Name of the policy that chooses the workers of elastic jobs; empty: ``spec.workers`` does."""
        return "" if self.elastic.policy == NO_POLICY else self.elastic.policy

    @property
    def measures_cpus(self) -> bool:
        """Whether it is measured how fast jobs are with fewer and more CPUs: the policy reads it."""
        return self.allocation.policy not in (NO_POLICY, "proportional")

    def policies(self, sharing: SharingSwitch = "off") -> Policies:
        """Return the policies.

        Args:
            sharing: whether jobs join others on GPUs.

        Raises:
            ValueError: unknown name or parameter; the message lists the known ones.
        """
        made = policies(
            order=self.order.policy,
            elastic=self.elastic.policy,
            placement=self.placement.policy,
            allocation=self.allocation.policy,
            preemption=self.preemption.policy,
            admission=tuple(admission.policy for admission in self.admission),
            admission_options={each.policy: each.parameters() for each in self.admission},
            order_options=self.order.parameters(),
            elastic_options=self.elastic.parameters(),
            placement_options=self.placement.parameters(),
            allocation_options=self.allocation.parameters(),
            preemption_options=self.preemption.parameters(),
            joining=self.joining.model_dump() if sharing == "lanes" else None,
        )
        return replace(made, spare_cpu_percent=self.spare_cpu_percent)

    @model_validator(mode="before")
    @classmethod
    def _is_current(cls, values: Any) -> Any:
        return refuse_replaced(values, REPLACED)

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        if self.order.policy in PRESETS:
            stages = PRESETS[self.order.policy]
            instead = ", ".join(
                f"{stage}: {{policy: {choice.name}}}"
                for stage, choice in stages.items()
                if stage != "preemption"
            )
            raise ValueError(
                f"order: {self.order.policy} is no order policy, but the name of several stages' policies in a simulation: write {instead}"
            )
        if self.placement.policy == "lanes":
            raise ValueError(f"placement: {REPLACED_PLACEMENT}")
        self.policies("lanes")
        return self


class TimeoutsConfig(Model):
    """Timeouts and waiting times, in seconds."""

    gang_timeout_seconds: int = Field(
        default=120,
        ge=1,
        le=86_400,
        description="A gang whose workers do not all run within this time is rolled back.",
    )
    unschedulable_seconds: int = Field(
        default=15,
        ge=0,
        le=3600,
        description="A gang with a worker that kube-scheduler refuses for this long is rolled back.",
    )
    avoid_node_seconds: int = Field(
        default=120,
        ge=0,
        le=86_400,
        description="A job avoids a node on which its worker could not start for this long.",
    )
    lost_node_seconds: int = Field(
        default=60,
        ge=0,
        le=86_400,
        description="A node that is not ready for this long has lost its workers.",
    )
    lost_node_removal_seconds: int = Field(
        default=300,
        ge=0,
        le=604_800,
        description="A terminating worker on a node that is not ready for this long is force-deleted, so that its gang can "
        "start elsewhere; 0: never.",
    )
    node_failures: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="A job whose workers failed this often in a row on one node avoids it, for avoidNodeSeconds the first time.",
    )
    pause_seconds: int = Field(
        default=60,
        ge=1,
        le=3600,
        description="A job that has not paused or offloaded within this time of the request is evicted.",
    )
    paused_seconds: int = Field(
        default=1800,
        ge=1,
        le=604_800,
        description="A job that has been paused or offloaded for this long is evicted, so that it can compete for other GPUs as well.",
    )
    unhealthy_gpu_seconds: int = Field(
        default=15,
        ge=0,
        le=86_400,
        description="A gang with a worker on a GPU that is unhealthy for this long is moved elsewhere.",
    )
    silent_node_seconds: int = Field(
        default=40,
        ge=20,  # agents renew every 10 to 11 s; a renewal that finds no connection is repeated after up to 4.25 s
        le=86_400,
        description="A node whose agent has not renewed its Lease for this long gets no new workers. Those that are there run on.",
    )
    ended_job_seconds: int = Field(
        default=604_800,
        ge=0,
        le=2_147_483_647,
        description="A job without ttlSecondsAfterFinished is deleted this long after it completed or failed; 0: never.",
    )
    restart_backoff_seconds: int = Field(
        default=10,
        ge=0,
        le=3600,
        description="Delay before restarting a gang whose worker failed, or whose last attempts (two or more) ended before all "
        "workers ran; doubles each time, to 300.",
    )
    refusal_backoff_seconds: int = Field(
        default=60, ge=0, le=86_400, description="Delay before retrying a pod that the API server refused."
    )
    orphan_seconds: int = Field(
        default=60,
        ge=0,
        le=86_400,
        description="A worker whose job is gone is deleted after this long, unless the garbage collector did it.",
    )


class CycleConfig(Model):
    """How often the operator decides and writes."""

    debounce_milliseconds: int = Field(
        default=50,
        ge=0,
        le=10_000,
        description="Time between the first change and the cycle that takes it, so that changes are batched.",
    )
    resync_seconds: int = Field(default=10, ge=1, le=3600, description="Longest time between two cycles.")
    relist_seconds: int = Field(
        default=300,
        ge=1,
        le=86_400,
        description="Time between two full lists, in case a watch missed something.",
    )
    explain_seconds: int = Field(
        default=5,
        ge=1,
        le=3600,
        description="Shortest time between two writes of a job's position, explanation and measured profile.",
    )
    estimate_seconds: int = Field(
        default=30,
        ge=1,
        le=3600,
        description="Shortest time between two start estimates of a waiting job, and between two rounds of suggestions.",
    )
    explanations_per_second: int = Field(
        default=20,
        ge=1,
        le=1000,
        description="Status writes per second that only explain; unused ones accumulate over explainSeconds.",
    )
    starts_per_cycle: int = Field(
        default=100,
        ge=1,
        le=100_000,
        description="The most jobs with decided but unwritten starts. Others follow as these are written.",
    )
    parallel_writes: int = Field(default=48, ge=1, le=512, description="Writes in flight at the same time.")


_STARTS_RATIO_OF_WRITES = 0.75
"""Of ``parallelWrites``, the part for jobs that start: a job that is to stop never waits behind thousands of new pods."""


def start_slots(parallel_writes: int) -> int:
    """Return how many of the writes in flight may be of jobs that start."""
    return max(1, int(parallel_writes * _STARTS_RATIO_OF_WRITES))


class LeaseConfig(Model):
    """How the replicas agree on the leader."""

    name: str = Field(default="laneway-operator", min_length=1, max_length=253)
    duration_seconds: int = Field(
        default=15,
        ge=2,
        le=3600,
        description="A leader that has not renewed the lease for this long is replaced.",
    )
    renew_deadline_seconds: int = Field(
        default=10,
        ge=1,
        le=3600,
        description="A leader that could not renew the lease for this long stops writing.",
    )
    retry_seconds: int = Field(
        default=2, ge=1, le=600, description="Time between attempts to take or renew the lease."
    )

    @model_validator(mode="after")
    def _stops_before_it_expires(self) -> Self:
        if not self.retry_seconds < self.renew_deadline_seconds < self.duration_seconds:
            raise ValueError(
                f"retrySeconds {self.retry_seconds}, renewDeadlineSeconds {self.renew_deadline_seconds}, durationSeconds "
                f"{self.duration_seconds}: write them in rising order, such as 2, 10, 15; a leader has to stop writing "
                "before another may start"
            )
        return self


class OperatorConfig(Model):
    """The whole file."""

    namespaces: tuple[Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")], ...] = Field(
        default=(),
        max_length=1000,
        description="Namespaces whose TrainingJobs the operator runs; it reads and writes no other's objects. Empty: all. No two operators "
        "may share a node.",
    )
    bind_pods: bool = Field(
        default=False,
        description="Create the pods of a gang on their nodes, without kube-scheduler, where neither volumes nor anything else in the template "
        "needs it. For nodes on which hardly any other pods start.",
    )
    sharing: Sharing = Field(
        default="lanes",
        description="Whether jobs join others on GPUs. off: each share belongs to one job. lanes: a job also joins others where all of "
        "them together do more work. As in the nodes' configuration.",
    )
    worker_runtime_class: str = Field(
        default="",
        max_length=253,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
        description="Runtime class of workers whose template names none, for example nvidia, where NVIDIA's runtime is not the default one. "
        "Empty: the node's default runtime. kube-scheduler then binds all pods, because a runtime class may add an overhead and a selector.",
    )
    scheduling: SchedulingConfig = SchedulingConfig()
    lanes: LaneConfig = Field(
        default=LaneConfig(),
        description="As in the nodes' configuration: the scheduler counts memory as the agent does.",
    )
    timeouts: TimeoutsConfig = TimeoutsConfig()
    cycle: CycleConfig = CycleConfig()
    lease: LeaseConfig = LeaseConfig()
    metrics_address: str = Field(
        default="", max_length=253, description="Address of the metrics and probes. Empty: all of the pod's."
    )
    metrics_port: int = Field(
        default=9090, ge=0, le=65_535, description="0: any free port, shown in the log."
    )
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def policies(self) -> Policies:
        """Return the policies of all stages."""
        return self.scheduling.policies(self.sharing)

    def active_percent(self, allocatable_percent: int) -> int:
        """Return the percent of a GPU whose holders take turns at the same time, by what its node offers."""
        return min(ACTIVE_PERCENT[self.sharing], allocatable_percent)

    def lane_rules(self) -> LaneRules:
        """Return how the scheduler counts a GPU's memory."""
        return LaneRules(max_lanes=self.lanes.max_per_gpu, padding_percent=self.lanes.padding_percent)
