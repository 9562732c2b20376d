"""The scheduler's input: a frozen snapshot of the cluster's GPUs and of all unfinished jobs.

Times are seconds of one clock of the caller's choice (the operator uses Unix time, the simulator its own). Jobs are
named by ``namespace/name``, workers by rank, GPUs by uuid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from laneway.api.enforcement import Enforcement
from laneway.api.training_job import PlacementMode
from laneway.lanes import LaneRules
from laneway.scheduling.model.goodput import GoodputModel
from laneway.scheduling.model.gpu_speed import ModelSpeed, SpeedBasis
from laneway.scheduling.model.host_resources import NOTHING, HostResources
from laneway.scheduling.model.sensitivity import Sensitivity
from laneway.scheduling.model.topology_levels import Domain


@dataclass(frozen=True, slots=True)
class Demand:
    """What a gang needs: the same for each of its workers.

    The workers of a gang never share a GPU with one another: NCCL refuses two ranks on one device.
    """

    workers: int = 1
    gpus_per_worker: int = 1
    """GPUs of each worker, all on one node."""

    share_percent: int = 100
    """Percent of each of these GPUs. Not used where ``memory_bytes`` or ``exclusive`` is set."""

    memory_bytes: int | None = None
    """Memory of the worker's one GPU; its share is then the smallest with enough quota on the chosen GPU."""

    models: frozenset[str] = frozenset()
    """Acceptable GPU models; empty: any."""

    minimum_enforcement: Enforcement = Enforcement.NONE
    """The weakest acceptable enforcement level."""

    exclusive: bool = False
    """The job holds its GPUs exclusively: all of their allocatable percent."""

    max_slowdown_ratio: float = 1.0
    """The most of its speed that the job may lose to jobs that join it on its GPUs; 1: no bound."""

    mode: PlacementMode = PlacementMode.AUTO

    requests: HostResources = NOTHING
    """What each worker's pod requests of its node beside GPUs."""

    preempts: bool = True
    """Whether other jobs may be preempted for it; else it takes only what is idle or being released."""

    min_workers: int | None = None
    """Of an elastic job: the fewest workers that it can run with; None: ``workers``."""

    max_workers: int | None = None
    """Of an elastic job: the most workers that it can use; None: ``workers``."""

    _hash: int = field(init=False, repr=False, compare=False)
    """Computed once, because many look-ups are by demand."""

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise ValueError(f"workers is {self.workers}: a gang has 1 or more")
        if not self.fewest_workers <= self.workers <= self.most_workers or self.fewest_workers < 1:
            raise ValueError(
                f"workers is {self.workers}, and min_workers to max_workers is {self.fewest_workers} to "
                f"{self.most_workers}: write a range, from 1 up, that holds it"
            )
        if self.gpus_per_worker < 1:
            raise ValueError(f"gpus_per_worker is {self.gpus_per_worker}: write 1 or more")
        if not 1 <= self.share_percent <= 100:
            raise ValueError(f"share_percent is {self.share_percent}: write 1 to 100")
        if self.gpus_per_worker > 1 and (self.memory_bytes is not None or self.share_percent != 100):
            raise ValueError("a worker with several GPUs has each of them whole: leave share_percent at 100")
        if self.memory_bytes is not None and self.memory_bytes < 1:
            raise ValueError(f"memory_bytes is {self.memory_bytes}: write 1 or more")
        if not 0 <= self.max_slowdown_ratio <= 1:
            raise ValueError(f"max_slowdown_ratio is {self.max_slowdown_ratio}: write 0 to 1")
        parts = (
            self.workers,
            self.gpus_per_worker,
            self.share_percent,
            self.memory_bytes,
            self.models,
            self.minimum_enforcement,
            self.exclusive,
            self.mode,
            self.requests,
        )
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash

    @property
    def gpus(self) -> int:
        """GPUs that the gang touches."""
        return self.workers * self.gpus_per_worker

    @property
    def spans_gpus(self) -> bool:
        """Whether the job's workers together use more than one GPU."""
        return self.gpus > 1

    @property
    def fewest_workers(self) -> int:
        """The fewest workers that the job can run with."""
        return self.workers if self.min_workers is None else self.min_workers

    @property
    def most_workers(self) -> int:
        """The most workers that the job can use."""
        return self.workers if self.max_workers is None else self.max_workers

    @property
    def elastic(self) -> bool:
        """Whether the number of workers may be changed."""
        return self.fewest_workers < self.most_workers


class StageSeconds(NamedTuple):
    """How long one iteration, alone on its GPUs, keeps each kind of resource busy, per GPU, in seconds.

    The stages of one iteration may overlap, so their sum may exceed the iteration's time.
    """

    storage: float
    cpu: float
    gpu: float
    network: float


@dataclass(frozen=True, slots=True)
class Profile:
    """Measurements of one worker's iterations; the largest over the workers."""

    persistent_bytes: int
    """Kept between iterations, the framework's own bytes included."""

    ephemeral_bytes: int
    """Additional memory used inside an iteration."""

    iteration_seconds: float = 0.0
    """Alone on its GPUs; 0: not known."""

    model_bytes: int = 0
    largest_tensor_bytes: int = 0
    """Over ``model_bytes`` it is Tiresias' skew."""

    stages: StageSeconds | None = None
    """The stages of the iteration's time; None: not known."""

    @property
    def skew_ratio(self) -> float | None:
        """The largest tensor over the model's size (Tiresias, NSDI'19, section 3.3); None: not known."""
        return self.largest_tensor_bytes / self.model_bytes if self.model_bytes else None


@dataclass(frozen=True, slots=True)
class WorkerPlacement:
    """The GPUs of one worker."""

    worker: int
    node: str
    gpus: tuple[str, ...]
    """Uuids; as many as the demand's ``gpus_per_worker``, all of ``node``."""

    share_percent: int
    """Percent of each of these GPUs."""


def held_gpus(placement: Iterable[WorkerPlacement]) -> float:
    """Return how many GPUs a placement holds; more than 100 percent of a GPU (overcommitment) is one GPU."""
    return sum(min(worker.share_percent, 100) * len(worker.gpus) for worker in placement) / 100


class JobState(StrEnum):
    """What a job holds."""

    WAITING = "Waiting"
    """Nothing."""
    STARTING = "Starting"
    """Its placement; not all of its workers run."""
    RUNNING = "Running"
    """Its placement; all of its workers run."""
    TERMINATING = "Terminating"
    """Its placement, until its workers are gone: it ends, fails or is evicted."""
    PAUSED = "Paused"
    """Its placement and its memory; it takes no turns."""
    OFFLOADED = "Offloaded"
    """Its placement; its memory is on the host, and it takes no turns."""
    PAUSING = "Pausing"
    """Its placement and all of its memory, until it has stopped between two iterations; then it is ``PAUSED``."""
    OFFLOADING = "Offloading"
    """Its placement and all of its memory, until that is on the host; then it is ``OFFLOADED``."""

    @property
    def is_releasing(self) -> bool:
        """Whether the job is releasing memory or GPUs; that is decided, and only takes time."""
        return self in _RELEASING


_RELEASING = frozenset({JobState.TERMINATING, JobState.PAUSING, JobState.OFFLOADING})
_NOT_TRAINING = frozenset({JobState.WAITING, JobState.PAUSED, JobState.OFFLOADED})


@dataclass(frozen=True, slots=True)
class Job:
    """An unfinished job (or a finished one whose workers are not gone yet: then ``TERMINATING``)."""

    key: str
    """``namespace/name``."""

    demand: Demand
    created_seconds: float
    uid: str = ""
    state: JobState = JobState.WAITING
    placement: tuple[WorkerPlacement, ...] = ()
    """Ordered by worker; empty exactly while it is ``WAITING``."""

    priority: int = 0
    """The value of its PriorityClass. A higher one goes first under every order policy."""

    attained_service_gpu_seconds: float = 0.0
    """Up to ``as_of_seconds``. A share of s percent counts as s/100 of a GPU."""

    executed_seconds: float = 0.0
    """Time in ``RUNNING``, over all of its runs, up to ``as_of_seconds``."""

    as_of_seconds: float | None = None
    """When service and executed time were counted; while ``RUNNING`` both grow from then on. None: they are those of
    the plan's ``now``."""

    service_rate_gpus: float | None = None
    """GPU-seconds of service a second while it runs; None: its share of the GPUs that it holds."""

    expected_seconds: float | None = None
    """Its total run time on what it demands, known or estimated from earlier jobs of its template; None: unknown. Only policies
    that need durations read it."""

    expected_on: str = ""
    """The GPU model on which it runs for ``expected_seconds``; empty: the same on every model that it accepts."""

    speeds: tuple[ModelSpeed, ...] = ()
    """How fast it runs on GPU models, by name: measured, or estimated. A model that is not named: not known."""

    waiting_since_seconds: float | None = None
    """Since when it waits, is paused or is offloaded, and could have run; None: since ``created_seconds``; infinite: it may not
    compete now (its namespace has no quota left, no node suits it). Not read in other states."""

    waited_before_seconds: float = 0.0
    """The total time of earlier waits in which it could have run."""

    started_seconds: float | None = None
    """When it last started or resumed; None before."""

    service_at_promotion_gpu_seconds: float = 0.0
    """Its attained service when it was last promoted for having waited long (see ``Plan.promotions``); 0: never."""

    profile: Profile | None = None
    template: str = ""
    """Jobs of one template do the same work; empty: not known."""

    sensitivity: Sensitivity | None = None
    """How its throughput depends on CPUs and memory; None: not measured."""

    cpu_floor_millis: int | None = None
    """The fewest CPUs that an allocation policy may give each worker, in thousandths; None: those that it requests."""

    goodput: GoodputModel | None = None
    """How the speed of an elastic job depends on its workers; None: not known."""

    restarts: int = 0
    """The number of its restarts."""

    explored_workers: int = 0
    """The most workers that it is known to have had, or 0; an elastic policy gives it at most twice as many."""

    avoided_workers: frozenset[int] = frozenset()
    """Numbers of workers with which it fails: an elastic policy gives it others."""

    requested_workers: int | None = None
    """The number of workers that its user now asks for, where the job holds GPUs with another number; None: as it has."""

    rescaled_seconds: float | None = None
    """When it was last stopped to be rescaled; None: never."""

    rescale_seconds: float | None = None
    """How long its last rescale kept it from training, the wait for GPUs not counted; None: unknown."""

    preemptible: bool = True
    pausable: bool = True
    """Whether it can be paused or offloaded; else it can only be evicted."""

    suspended: bool = False
    """Its user has suspended it."""

    unsaved_seconds: float | None = None
    """The executed time up to ``as_of_seconds`` that no checkpoint holds: an eviction loses it. It grows while the job is
    ``RUNNING``. None: unknown."""

    starts_over: bool = False
    """It did not resume after it was stopped: an eviction loses all that it executed."""

    ends: bool = False
    """Its workers are leaving, or are told to in this cycle, and it does not start again by itself."""

    leaves_late: bool = False
    """Its workers may hold their GPUs for minutes after they are told to end."""

    def __post_init__(self) -> None:
        if (self.state is JobState.WAITING) != (not self.placement):
            raise ValueError(f"job {self.key} is {self.state} and has {len(self.placement)} placed workers")

    @property
    def namespace(self) -> str:
        """The part of the key before the slash; empty where there is none."""
        return self.key.rpartition("/")[0]

    @property
    def frees_soon(self) -> bool:
        """Whether its GPUs are free within about a minute, and it does not start again by itself."""
        return self.ends and not self.leaves_late

    @property
    def rate_gpus(self) -> float:
        """GPU-seconds of service that it attains a second; 0 while it does not run."""
        if self.state is not JobState.RUNNING:
            return 0.0
        if self.service_rate_gpus is not None:
            return self.service_rate_gpus
        return held_gpus(self.placement)

    def service_gpu_seconds(self, now_seconds: float) -> float:
        """Return the service attained up to a moment."""
        if self.as_of_seconds is None or self.state is not JobState.RUNNING:
            return self.attained_service_gpu_seconds
        return self.attained_service_gpu_seconds + (now_seconds - self.as_of_seconds) * self.rate_gpus

    def ran_seconds(self, now_seconds: float) -> float:
        """Return the time executed up to a moment."""
        if self.as_of_seconds is None or self.state is not JobState.RUNNING:
            return self.executed_seconds
        return self.executed_seconds + now_seconds - self.as_of_seconds

    def speed_on(self, model: str) -> ModelSpeed | None:
        """Return how fast it runs on GPUs of a model; None: not known."""
        return next((each for each in self.speeds if each.model == model), None)

    def expected_seconds_on(self, model: str) -> float | None:
        """Return its total run time on GPUs of a model; None: unknown."""
        there, known = self.speed_on(model), self.speed_on(self.expected_on)
        if self.expected_seconds is None or there is None or known is None:
            return self.expected_seconds
        return self.expected_seconds * known.per_second / there.per_second

    def estimated_on(self, model: str) -> ModelSpeed | None:
        """Return the estimated speed by which its run time on GPUs of a model is known; None: it is known without an estimate, or unknown."""
        there, known = self.speed_on(model), self.speed_on(self.expected_on)
        if self.expected_seconds is None or model == self.expected_on or there is None or known is None:
            return None
        return next((each for each in (there, known) if each.basis is not SpeedBasis.MEASURED), None)

    @property
    def competes(self) -> bool:
        """Whether it waits, is paused or is offloaded, and may run."""
        return self.state in _NOT_TRAINING and not self.suspended and self.competes_since_seconds < math.inf

    @property
    def competes_since_seconds(self) -> float:
        """Since when it waits, is paused or is offloaded, and may run; infinite: it may not."""
        return self.created_seconds if self.waiting_since_seconds is None else self.waiting_since_seconds

    def waited_seconds(self, now_seconds: float) -> float:
        """Return how long it has waited this time; 0 while it does not wait or may not run."""
        if self.state is not JobState.WAITING:
            return 0.0
        return max(0.0, now_seconds - self.competes_since_seconds)

    def total_waited_seconds(self, now_seconds: float) -> float:
        """Return how long it has waited, been paused or been offloaded in all, as far as it could have run."""
        if not self.competes:
            return self.waited_before_seconds
        return self.waited_before_seconds + max(0.0, now_seconds - self.competes_since_seconds)


@dataclass(frozen=True, slots=True)
class ForeignTenant:
    """A user of a GPU that is not in the snapshot's placements: a plain pod, or a worker that is not where it was planned."""

    key: str
    share_percent: int
    persistent_bytes: int = 0
    ephemeral_bytes: int = 0
    profiled: bool = False
    """Whether the two sizes were measured; else its whole quota counts."""

    spans_gpus: bool = False


@dataclass(frozen=True, slots=True)
class GPU:
    """One GPU."""

    uuid: str
    node: str
    index: int
    model: str
    memory_bytes: int
    allocatable_bytes: int
    """Memory less the reserve for frameworks."""

    allocatable_percent: int = 100
    """Shares on offer: 100, or more where jobs join others."""

    active_percent: int | None = None
    """Percent that may take turns at the same time; the rest can only be held by paused and offloaded jobs. None: all of it."""

    healthy: bool = True
    enforcement: Enforcement = Enforcement.COOPERATIVE
    """The strongest enforcement level of its node."""

    numa_node: int | None = None
    nvlink_peers: frozenset[str] = frozenset()
    foreign: tuple[ForeignTenant, ...] = ()
    lane_rules: LaneRules = field(default_factory=LaneRules)
    moved_seconds_per_gib: float | None = None
    """The time to move a GiB of a worker's persistent memory to the host and back, as its node measured it; None: not yet."""

    @property
    def foreign_percent(self) -> int:
        """The percent held by foreign tenants."""
        return sum(tenant.share_percent for tenant in self.foreign)


@dataclass(frozen=True, slots=True)
class Node:
    """One node."""

    name: str
    gpus: tuple[GPU, ...]
    schedulable: bool = True
    """False: no new worker is placed there (cordoned, not ready, silent agent); present workers stay."""

    reason: str = ""
    """Why it is not schedulable, as a clause: "it is cordoned"."""

    domains: tuple[Domain, ...] = ()
    """Its zone, its rack or whatever levels are configured, from the widest to the narrowest; empty: not known."""

    host: HostResources | None = None
    """What the node has for the requests of jobs' pods: all of it, less what other pods request. It may be less than 0. None: not
    known, so nothing limits the workers there."""

    host_capacity: HostResources | None = None
    """What the node offers to all pods together: other pods may end. None: ``host``."""


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The cluster and its jobs. The order of nodes, GPUs and jobs does not matter."""

    nodes: tuple[Node, ...]
    jobs: tuple[Job, ...]
    avoid: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    """By job: nodes on which it must not be placed now (its template forbids them, or its workers failed there)."""

    def __post_init__(self) -> None:
        _refuse_twice("node", [node.name for node in self.nodes])
        _refuse_twice("GPU", [gpu.uuid for node in self.nodes for gpu in node.gpus])
        _refuse_twice("job", [job.key for job in self.jobs])


def _refuse_twice(kind: str, names: list[str]) -> None:
    if len(names) != len(set(names)):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"the snapshot lists a {kind} twice: {', '.join(twice)}")
