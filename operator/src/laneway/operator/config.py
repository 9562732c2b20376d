"""``operator.yaml``: how the operator decides, how patient it is, and where it listens."""

from __future__ import annotations

import re
from typing import Any, Literal, Self

from laneway.api.node_config import LaneConfig
from laneway.api.schema import Model
from laneway.lanes import LaneRules
from laneway.scheduling import Policies, policies
from pydantic import Field, model_validator


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


class PolicyConfig(Model):
    """One stage of a decision: which policy, with which parameters."""

    policy: str
    options: dict[str, Any] = Field(default={}, description="The policy's parameters, in camelCase.")

    def parameters(self) -> dict[str, object]:
        """Return the options as the policy's fields are called."""
        return {
            _snake(name): tuple(value) if isinstance(value, list) else value
            for name, value in self.options.items()
        }


class SchedulingConfig(Model):
    """Who is admitted, who goes first, where to, and who makes way."""

    admission: tuple[PolicyConfig, ...] = Field(
        default=(),
        description="Who may compete at all, such as quotas of namespaces; all of them must agree.",
    )
    order: PolicyConfig = PolicyConfig(policy="multilevel-las")
    placement: PolicyConfig = PolicyConfig(policy="best-fit")
    preemption: PolicyConfig = PolicyConfig(policy="lowest-first")
    active_percent: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Percent of a GPU whose holders take turns at the same time. What nodes offer beyond it (overcommitPercent) is for jobs "
        "that make way by pausing or by moving their memory to the host; without it, who makes way ends.",
    )

    def policies(self) -> Policies:
        """Return the policies.

        Raises:
            ValueError: there is none of such a name, or no such parameter; says which there are.
        """
        return policies(
            order=self.order.policy,
            placement=self.placement.policy,
            preemption=self.preemption.policy,
            admission=tuple(admission.policy for admission in self.admission),
            admission_options={each.policy: each.parameters() for each in self.admission},
            order_options=self.order.parameters(),
            placement_options=self.placement.parameters(),
            preemption_options=self.preemption.parameters(),
        )

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        self.policies()
        return self


class PatienceConfig(Model):
    """How long the operator waits for what, in seconds."""

    gang_timeout_seconds: int = Field(
        default=120,
        ge=1,
        le=86_400,
        description="A gang whose workers do not all run by then is rolled back.",
    )
    unschedulable_seconds: int = Field(
        default=15,
        ge=0,
        le=3600,
        description="A worker that kube-scheduler refuses for so long rolls its gang back.",
    )
    avoid_node_seconds: int = Field(
        default=120,
        ge=0,
        le=86_400,
        description="A job keeps away so long from a node on which its worker could not start.",
    )
    lost_node_seconds: int = Field(
        default=60, ge=0, le=86_400, description="A node that is not ready for so long has lost its workers."
    )
    lost_node_removal_seconds: int = Field(
        default=300,
        ge=0,
        le=604_800,
        description="A worker that is to end on a node that is not ready for so long is removed without its kubelet's word, so "
        "that its gang can start elsewhere; 0: never.",
    )
    node_failures: int = Field(
        default=2,
        ge=1,
        le=1000,
        description="A job whose workers failed so often in a row on one node keeps away from it, avoidNodeSeconds for the first time.",
    )
    park_seconds: int = Field(
        default=60,
        ge=1,
        le=3600,
        description="A job that was told to pause or to move its memory to the host, and has not after so long, is evicted instead.",
    )
    parked_seconds: int = Field(
        default=1800,
        ge=1,
        le=604_800,
        description="A job that has stood aside for so long is evicted, so that it can compete for other GPUs as well.",
    )
    unhealthy_gpu_seconds: int = Field(
        default=15,
        ge=0,
        le=86_400,
        description="A gang with a worker on a GPU that is out of use for so long is moved elsewhere.",
    )
    silent_node_seconds: int = Field(
        default=120,
        ge=10,
        le=86_400,
        description="A node whose agent did not write for so long gets no new workers.",
    )
    restart_backoff_seconds: int = Field(
        default=10,
        ge=0,
        le=3600,
        description="Wait before a gang starts again whose worker failed, or whose last two attempts or more ended before all workers ran; "
        "doubles each time, to 300.",
    )
    refusal_backoff_seconds: int = Field(
        default=60, ge=0, le=86_400, description="Wait before trying again a pod that the API server refused."
    )
    orphan_seconds: int = Field(
        default=60,
        ge=0,
        le=86_400,
        description="A worker whose job is gone is deleted after so long, if nobody else did.",
    )


class CycleConfig(Model):
    """How often the operator decides and writes."""

    debounce_milliseconds: int = Field(
        default=50,
        ge=0,
        le=10_000,
        description="A change waits so long for others before a cycle takes them all.",
    )
    resync_seconds: int = Field(default=10, ge=1, le=3600, description="A cycle runs at least so often.")
    relist_seconds: int = Field(
        default=300,
        ge=1,
        le=86_400,
        description="Everything is listed anew so often, in case a watch missed something.",
    )
    explain_seconds: int = Field(
        default=5,
        ge=1,
        le=3600,
        description="A job's position, sentences and measured profile are written at most so often.",
    )
    advise_seconds: int = Field(
        default=30,
        ge=1,
        le=3600,
        description="When waiting jobs may start, and what would let them start now, is worked out at most so often.",
    )
    service_seconds: int = Field(
        default=60,
        ge=1,
        le=3600,
        description="A running job's attained service is written at least so often.",
    )
    explanations_per_second: int = Field(
        default=20,
        ge=1,
        le=1000,
        description="Most statuses that are written for such reasons alone in a second; saved up over explainSeconds.",
    )
    starts_per_cycle: int = Field(
        default=100,
        ge=1,
        le=100_000,
        description="Most jobs that start at the same time: whose starts are decided and not written yet. Others follow as these are written.",
    )
    parallel_writes: int = Field(default=48, ge=1, le=512, description="Writes under way at the same time.")


class LeaseConfig(Model):
    """How the replicas agree on the one that acts."""

    name: str = Field(default="laneway-operator", min_length=1, max_length=253)
    duration_seconds: int = Field(
        default=15, ge=2, le=3600, description="A leader that was silent for so long is replaced."
    )
    renew_deadline_seconds: int = Field(
        default=10, ge=1, le=3600, description="A leader that could not renew for so long stops writing."
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

    scheduling: SchedulingConfig = SchedulingConfig()
    lanes: LaneConfig = Field(
        default=LaneConfig(),
        description="As in the nodes' configuration: the planner counts memory as the agent does.",
    )
    patience: PatienceConfig = PatienceConfig()
    cycle: CycleConfig = CycleConfig()
    lease: LeaseConfig = LeaseConfig()
    metrics_port: int = Field(
        default=9090, ge=0, le=65_535, description="0: any free port, shown in the log."
    )
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def lane_rules(self) -> LaneRules:
        """Return how the planner counts a GPU's memory."""
        return LaneRules(max_lanes=self.lanes.max_per_gpu, padding_percent=self.lanes.padding_percent)
