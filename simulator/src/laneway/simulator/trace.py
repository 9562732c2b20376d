"""A trace: jobs with their submissions and durations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from laneway.scheduling import Demand, HostResources, Profile
from laneway.scheduling.model.host_resources import NOTHING, add
from laneway.scheduling.model.sensitivity import Sensitivity
from laneway.simulator.training import Training


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace."""

    key: str
    """``namespace/name``."""

    demand: Demand
    submit_seconds: float
    duration_seconds: float
    """How long it runs undisturbed on what it requests."""

    priority: int = 0
    profile: Profile | None = None
    """A worker's use of GPU memory and time per iteration; None: the trace does not say."""

    model: str = ""
    """What it trains; empty: the trace does not say."""

    user: str = ""
    """Who submitted it; empty: the trace does not say. Fairness counts namespaces, not users."""

    expected_seconds: float | None = None
    """The duration that policies with duration estimates are given; None: ``duration_seconds``."""

    preemptible: bool = True
    avoided_nodes: frozenset[str] = frozenset()
    """Nodes that its node selector excludes."""

    sensitivity: Sensitivity | None = None
    """How its throughput depends on CPUs and memory; None: not measured."""

    training: Training | None = None
    """Its speed with any workers and batch size; None: not measured."""

    saves: bool = True
    """Whether it saves its work when it is evicted; else it loses what no earlier checkpoint holds."""

    checkpoint_seconds: float | None = None
    """The time of training after which it writes a checkpoint, again and again. None: a job that saves does as the model of the
    operator says, any other writes none and starts over."""

    unseen_requests: HostResources = NOTHING
    """What each worker's pod requests of its node beyond what the scheduler knows, such as for the container that a webhook adds.
    Only kube-scheduler counts it."""

    def __post_init__(self) -> None:
        if self.submit_seconds < 0:
            raise ValueError(f"submit_seconds of job {self.key} is {self.submit_seconds}: write 0 or more")
        if self.duration_seconds <= 0:
            raise ValueError(
                f"duration_seconds of job {self.key} is {self.duration_seconds}: write more than 0"
            )
        if self.checkpoint_seconds is not None and self.checkpoint_seconds <= 0:
            raise ValueError(
                f"checkpoint_seconds of job {self.key} is {self.checkpoint_seconds}: write more than 0, or nothing"
            )
        if self.expected_seconds is not None and self.expected_seconds <= 0:
            raise ValueError(
                f"expected_seconds of job {self.key} is {self.expected_seconds}: write more than 0, or nothing"
            )

    @property
    def pod_requests(self) -> HostResources:
        """What each worker's pod requests of its node beside GPUs."""
        if not self.unseen_requests:
            return self.demand.requests
        total = dict(self.demand.requests.amounts)
        add(total, self.unseen_requests)
        return HostResources.of(total)


@dataclass(frozen=True, slots=True)
class TraceRead:
    """The result of reading a trace file."""

    jobs: tuple[TraceJob, ...]
    """Ordered by submission."""

    format: str
    """The name of the file's format."""

    skipped: Mapping[str, int]
    """The number of jobs that are not among ``jobs``, by reason; the reason is a clause, "it uses no GPU"."""

    def summary(self) -> str:
        """Return the counts in a line: ``12 jobs (helios); skipped: 3 (it uses no GPU), 1 (it never ran)``."""
        line = f"{len(self.jobs)} jobs ({self.format})"
        if self.skipped:
            line += "; skipped: " + ", ".join(f"{self.skipped[why]} ({why})" for why in sorted(self.skipped))
        return line
