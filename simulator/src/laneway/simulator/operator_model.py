"""A model of the operator and of the cluster under it: how long their steps take, and what goes wrong.

:data:`IDEAL`, the default of a simulation, decides and writes in no time, and nothing fails: so do the simulators of the papers.
The operator's own configuration gives the pace of its cycles, its timeouts and its back-offs.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, fields

from laneway.scheduling.config.operator_config import CycleConfig, OperatorConfig, start_slots

NODE_MONITOR_GRACE_SECONDS = 50.0
"""A node that reports nothing for this long is not ready: the default of kube-controller-manager since Kubernetes 1.32."""


@dataclass(frozen=True, slots=True)
class Latencies:
    """How long the steps between a decision and training workers take.

    The defaults are measured on the embedded cluster: two nodes on a machine with two cores (``make bench-scheduling
    ONLY=real-cluster``; ``request_seconds``: ``make bench-scale``). A larger image or a slower storage shows in ``pods_seconds``.
    """

    observe_seconds: float = 0.01
    """From a change in the cluster to the cycle that knows of it, less the time in which changes are collected
    (``cycle.debounceMilliseconds``), and the decision itself."""

    request_seconds: float = 0.0075
    """One write at the API server, under load."""

    pods_seconds: float = 1.4
    """From the creation of a gang's pods to their running processes: kube-scheduler, the kubelet, the device plugin;
    the mean over gangs of one to eight workers."""

    notice_seconds: float = 1.9
    """From the end of a gang's last process to the operator's knowing: the kubelet looks once a second, then reports."""

    def __post_init__(self) -> None:
        _refuse_negative(self)


@dataclass(frozen=True, slots=True)
class Failures:
    """What goes wrong, at random but the same for the same seed. By default nothing does."""

    job_mtbf_seconds: float = 0.0
    """The mean time that a job trains until a worker of it fails; 0: none fails."""

    node_mtbf_seconds: float = 0.0
    """The mean time that a node is up until it fails with all of its workers; 0: none fails."""

    node_repair_seconds: float = 3600.0
    """How long a failed node is down."""

    start_failure_ratio: float = 0.0
    """The part of the attempts in which a worker does not start; they are rolled back after ``timeouts.gangTimeoutSeconds``."""

    checkpoint_seconds: float = 600.0
    """A job that saves its work writes a checkpoint after each such time of training, unless the trace says otherwise; 0: only
    when it is told to stop. A failure loses the work since the last one. The interval of ``laneway.client.Checkpoint``."""

    seed: float = 0.0

    def __post_init__(self) -> None:
        _refuse_negative(self)
        if self.start_failure_ratio >= 1:
            raise ValueError(f"start_failure_ratio is {self.start_failure_ratio}: write less than 1")

    def job_fails_after_seconds(self, key: str, attempt: int) -> float:
        """Return how long an attempt of a job trains until a worker of it fails; infinite: none does."""
        return self._draw(self.job_mtbf_seconds, f"job/{key}/{attempt}")

    def node_fails_after_seconds(self, node: str, times: int) -> float:
        """Return how long a node that has failed a number of times is up; infinite: for ever."""
        return self._draw(self.node_mtbf_seconds, f"node/{node}/{times}")

    def does_not_start(self, key: str, attempt: int) -> bool:
        """Return whether a worker of an attempt does not start."""
        if not self.start_failure_ratio:
            return False
        return random.Random(f"{self.seed}/start/{key}/{attempt}").random() < self.start_failure_ratio

    def _draw(self, mean_seconds: float, what: str) -> float:
        if not mean_seconds:
            return math.inf
        return random.Random(f"{self.seed}/{what}").expovariate(1 / mean_seconds)


def _refuse_negative(values: Latencies | Failures) -> None:
    for each in fields(values):
        if not getattr(values, each.name) >= 0:
            raise ValueError(f"{each.name} is {getattr(values, each.name)}: write 0 or more")


@dataclass(frozen=True, slots=True)
class OperatorModel:
    """An operator with a configuration, on a cluster."""

    config: OperatorConfig = field(default_factory=OperatorConfig)
    """Its cycle and its timeouts count. A simulation is given its policies apart from it."""

    latencies: Latencies = Latencies()
    failures: Failures = Failures()

    @property
    def reaction_seconds(self) -> float:
        """From a change to the cycle that takes it in."""
        return self.latencies.observe_seconds + self.rest_seconds

    @property
    def rest_seconds(self) -> float:
        """The least time between two cycles."""
        return self.config.cycle.debounce_milliseconds / 1000

    @property
    def stop_writes_seconds(self) -> float:
        """For the writes that stop a job: first its status, then what stops its pods."""
        return 2 * self.latencies.request_seconds


class Starts:
    """The starts whose writes are in flight: no decision changes these jobs."""

    def __init__(self, operator: OperatorModel) -> None:
        self._request_seconds = operator.latencies.request_seconds
        self._slots = start_slots(operator.config.cycle.parallel_writes)
        self._slots_free_seconds = 0.0
        self._end_seconds: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._end_seconds)

    def __contains__(self, key: str) -> bool:
        return key in self._end_seconds

    def begin(self, key: str, workers: int, now_seconds: float) -> float:
        """Write a start; return how long that takes: first the status, then the Service of a gang, then all pods at once."""
        before_pods = 1 + (workers > 1)
        busy_seconds = (before_pods + workers) * self._request_seconds / self._slots
        self._slots_free_seconds = max(now_seconds, self._slots_free_seconds) + busy_seconds
        took_seconds = max((before_pods + 1) * self._request_seconds, self._slots_free_seconds - now_seconds)
        if took_seconds > 0:
            self._end_seconds[key] = now_seconds + took_seconds
        return took_seconds

    def drop_ended(self, now_seconds: float) -> None:
        """Forget the writes that have ended."""
        self._end_seconds = {key: end for key, end in self._end_seconds.items() if end > now_seconds}

    def first_end_seconds(self, now_seconds: float) -> float:
        """Return when the first writes end; now, if none are in flight."""
        return min(self._end_seconds.values(), default=now_seconds)


IDEAL = OperatorModel(
    OperatorConfig(cycle=CycleConfig(debounce_milliseconds=0, starts_per_cycle=100_000)),
    Latencies(0.0, 0.0, 0.0, 0.0),
)
