"""The jobs of each case, drawn by seed: a seed's jobs are the same whenever they are drawn.

Arrivals are a Poisson process. Rigid and elastic jobs have log-normal work, cut off at both ends, and train on data that arrive at a fixed
pace. Jobs that may share GPUs are of three kinds, each a template whose jobs do the same work: they wait for their input and then compute
on a GPU whose time is divided between its jobs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tests.performance.real_workload.prediction import Described
from tests.performance.real_workload.run import Timed
from tests.performance.real_workload.workload import BATCH_SECONDS, WorkloadJob
from tests.performance.sharing.workload import CROWD, KINDS, SharingJob

GLOBAL_BATCH = 60
"""Samples of an elastic job's step: one, two, three and four workers divide it evenly."""

_RIGID_SHAPES = ((1, 100, 4), (1, 50, 2), (2, 100, 2), (2, 50, 1), (4, 100, 1))
_RIGID_BESIDE_ELASTIC = ((1, 100, 2), (2, 100, 1))
_ELASTIC = ((1, 4, 4), (1, 2, 2))
"""Fewest and most workers, and how many such jobs."""

_KIND_STEPS: Mapping[str, int] = {"gpu-30": 110, "gpu-40": 170, "gpu-70": 120}
"""Of each job: 33, 43 and 36 s alone. All pairs of these kinds are clear of what a job has to gain by joining, and of its bound: of two
that are not, such as 50 and 70 %, a measured millisecond decides."""

_KIND_JOBS = 3
"""Of each kind."""


_Item = TypeVar("_Item")


class DrawnJob(Timed, Described, Protocol):
    """A job of a run; its name is in no other run, because a checkpoint is found by it."""


@dataclass(frozen=True, slots=True)
class ElasticJob(WorkloadJob):
    """A job whose workers divide each batch: its work is the time that one worker takes."""

    min_workers: int = 1
    max_workers: int = 1

    def manifest(self, namespace: str) -> dict[str, Any]:
        """Return the TrainingJob."""
        made = WorkloadJob.manifest(self, namespace)
        made["spec"] |= {"minWorkers": self.min_workers, "maxWorkers": self.max_workers}
        trainer = made["spec"]["template"]["spec"]["containers"][0]
        trainer["env"].append({"name": "GLOBAL_BATCH", "value": str(GLOBAL_BATCH)})
        return made


@dataclass(frozen=True, slots=True)
class LanesJob:
    """A job of a kind, for one GPU that it may share."""

    name: str
    submit_seconds: float
    kind: str
    workers: int = 1
    share_percent: int = 100

    @property
    def work_seconds(self) -> float:
        """Its time alone by construction; what it really takes is measured."""
        return _KIND_STEPS[self.kind] * KINDS[self.kind].iteration_seconds

    @property
    def shared(self) -> SharingJob:
        """The job as the benchmark of sharing describes it."""
        return SharingJob(self.name, CROWD, self.kind, _KIND_STEPS[self.kind], node="")

    def manifest(self, namespace: str) -> dict[str, Any]:
        """Return the TrainingJob."""
        return self.shared.manifest(namespace)


def rigid_jobs(prefix: str, seed: int) -> Sequence[WorkloadJob]:
    """Draw jobs with a fixed number of workers.

    Args:
        prefix: of their names.
        seed: of all that is drawn.
    """
    randomness = random.Random(seed)
    shapes = _shuffled([shape[:2] for shape in _RIGID_SHAPES for _ in range(shape[2])], randomness)
    times = _arrivals(randomness, mean_seconds=6.0)
    return [
        WorkloadJob(f"{prefix}-{number}", next(times), workers, percent, _rigid_steps(randomness))
        for number, (workers, percent) in enumerate(shapes)
    ]


def elastic_jobs(prefix: str, seed: int) -> Sequence[WorkloadJob]:
    """Draw elastic jobs with some rigid ones among them; as :func:`rigid_jobs`."""
    randomness = random.Random(seed)
    elastic = [(True, *shape[:2]) for shape in _ELASTIC for _ in range(shape[2])]
    rigid = [(False, *shape[:2]) for shape in _RIGID_BESIDE_ELASTIC for _ in range(shape[2])]
    times = _arrivals(randomness, mean_seconds=9.0)
    found: list[WorkloadJob] = []
    for number, (is_elastic, first, second) in enumerate(_shuffled(elastic + rigid, randomness)):
        name, submit_seconds = f"{prefix}-{number}", next(times)
        if is_elastic:
            steps = _steps(randomness, 42.0, 20.0, 75.0)
            found.append(ElasticJob(name, submit_seconds, first, 100, steps, first, second))
        else:
            found.append(WorkloadJob(name, submit_seconds, first, second, _rigid_steps(randomness)))
    return found


def lanes_jobs(prefix: str, seed: int) -> Sequence[LanesJob]:
    """Draw jobs that may share GPUs; as :func:`rigid_jobs`."""
    randomness = random.Random(seed)
    kinds = _shuffled([kind for kind in _KIND_STEPS for _ in range(_KIND_JOBS)], randomness)
    times = _arrivals(randomness, mean_seconds=5.0)
    return [LanesJob(f"{prefix}-{number}", next(times), kind) for number, kind in enumerate(kinds)]


def one_of_each_kind() -> Sequence[SharingJob]:
    """Return a job of each kind, fewer than there are GPUs: each has one alone."""
    return [LanesJob(f"alone-{kind}", 0.0, kind).shared for kind in _KIND_STEPS]


def two_for_each_gpu(gpus: int) -> Sequence[SharingJob]:
    """Return two jobs for each GPU, of all kinds in turn."""
    kinds = [kind for _ in range(2 * gpus) for kind in _KIND_STEPS][: 2 * gpus]
    return [LanesJob(f"beside-{number}-{kind}", 0.0, kind).shared for number, kind in enumerate(kinds)]


def _arrivals(randomness: random.Random, mean_seconds: float) -> Iterator[float]:
    at_seconds = 0.0
    while True:
        yield round(at_seconds, 1)
        at_seconds += randomness.expovariate(1 / mean_seconds)


def _rigid_steps(randomness: random.Random) -> int:
    return _steps(randomness, 18.0, 10.0, 40.0)


def _steps(
    randomness: random.Random, median_seconds: float, least_seconds: float, most_seconds: float
) -> int:
    drawn_seconds = median_seconds * randomness.lognormvariate(0.0, 0.6)
    return round(min(max(drawn_seconds, least_seconds), most_seconds) / BATCH_SECONDS)


def _shuffled(items: Sequence[_Item], randomness: random.Random) -> list[_Item]:
    return randomness.sample(items, len(items))
