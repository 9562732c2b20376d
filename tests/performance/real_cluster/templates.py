"""Measures the templates of jobs that may share GPUs, before any run: their stages alone, and how much they slow one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from laneway.api.training_job_status import ProfileStatus
from laneway.scheduling import Demand, Job, Profile
from laneway.scheduling.model.interference import Load, load_of
from laneway.scheduling.model.measured_profile import profile_of
from laneway.scheduling.model.shared_speeds import SharedSpeeds
from laneway.simulator.models.lanes import speeds_on_gpus
from laneway.simulator.models.speed_model import Changes, Occupancy, Speed

from hack.cluster.progress import ClusterError, report
from tests.performance.real_cluster.drawn_jobs import one_of_each_kind, two_for_each_gpu
from tests.performance.real_workload.live_cluster import LiveCluster
from tests.performance.sharing.figures import JobRun
from tests.performance.sharing.phase import run_phase


@dataclass(frozen=True, slots=True)
class MeasuredTemplate:
    """A kind of jobs, alone on a GPU."""

    train_seconds: float
    """From the first step to the end."""

    persistent_bytes: int
    ephemeral_bytes: int
    gpu_microseconds: int
    """Of an iteration, within it."""

    data_microseconds: int
    """Of an iteration, before it."""

    @property
    def profile(self) -> Profile:
        """What the operator makes of that."""
        return profile_of(
            ProfileStatus(
                persistent_bytes=self.persistent_bytes,
                ephemeral_bytes=self.ephemeral_bytes,
                iteration_microseconds=self.gpu_microseconds,
                data_microseconds=self.data_microseconds,
            )
        )


@dataclass(frozen=True, slots=True)
class MeasuredPair:
    """Two jobs on one GPU while both trained."""

    kinds: tuple[str, str]
    ratios: tuple[float, float]
    """The speed of each; 1 is its speed alone."""


@dataclass(frozen=True, slots=True)
class MeasuredTemplates:
    """All kinds, and what they lose beside one another."""

    kinds: Mapping[str, MeasuredTemplate]
    pairs: Sequence[MeasuredPair]


class SpeedsBeside:
    """How fast jobs are that share GPUs: the scheduler's model of shared speeds, after it has learnt from pairs that were measured."""

    def __init__(self, templates: MeasuredTemplates) -> None:
        """Learn from the pairs."""
        self._jobs = {
            load_of(each.profile): Job(
                f"measured/{kind}", Demand(), 0.0, profile=each.profile, template=f"measured/{kind}"
            )
            for kind, each in templates.kinds.items()
        }
        self._learnt = SharedSpeeds()
        for pair in templates.pairs:
            jobs = [self._jobs[load_of(templates.kinds[kind].profile)] for kind in pair.kinds]
            for at, ratio in enumerate(pair.ratios):
                self._learnt.learn(jobs, at, ratio)

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        """Return the speeds of all jobs on the changed GPUs."""
        return speeds_on_gpus(self, changes, occupancy)

    def speed_ratios(self, loads: Sequence[Load]) -> tuple[float, ...]:
        """Return the speed of each of the jobs that share a GPU; 1 is its speed alone."""
        return self._learnt.predict([self._jobs[load._replace(lane=None)] for load in loads])


def measure_templates(cluster: LiveCluster, gpus: int) -> MeasuredTemplates:
    """Run a job of each kind alone, then two jobs for each GPU. The operator keeps what it learns of the templates.

    Raises:
        ClusterError: a job failed, or no two jobs shared a GPU.
    """
    report("templates: each alone")
    kinds = {run.kind: _template(run) for run in run_phase(cluster, one_of_each_kind())}
    report("templates: beside one another")
    pairs = pairs_of(run_phase(cluster, two_for_each_gpu(gpus), keeps_templates=True), kinds)
    if not pairs:
        raise ClusterError("no two jobs of the measured templates trained on one GPU at the same time")
    return MeasuredTemplates(kinds, pairs)


def read_templates(found: Mapping[str, Any]) -> MeasuredTemplates:
    """Return the templates of an earlier result."""
    return MeasuredTemplates(
        {kind: MeasuredTemplate(**template) for kind, template in found["kinds"].items()},
        [MeasuredPair(tuple(pair["kinds"]), tuple(pair["ratios"])) for pair in found["pairs"]],
    )


def pairs_of(runs: Sequence[JobRun], kinds: Mapping[str, MeasuredTemplate]) -> list[MeasuredPair]:
    """Return the speeds of jobs of one GPU in the time in which exactly these two trained there."""
    found = []
    for one, other in combinations(runs, 2):
        begin_seconds = max(one.start_seconds, other.start_seconds)
        end_seconds = min(one.end_seconds, other.end_seconds)
        crowded = [run for run in runs if run.gpus == one.gpus and run not in (one, other)]
        if one.gpus != other.gpus or any(
            run.start_seconds < end_seconds and run.end_seconds > begin_seconds for run in crowded
        ):
            continue
        ratios = [_ratio(run, begin_seconds, end_seconds, kinds) for run in (one, other)]
        if ratios[0] is not None and ratios[1] is not None:
            found.append(MeasuredPair((one.kind, other.kind), (ratios[0], ratios[1])))
    return found


def _ratio(
    run: JobRun, begin_seconds: float, end_seconds: float, kinds: Mapping[str, MeasuredTemplate]
) -> float | None:
    """Return a job's speed between the first and the last of its reports in a time; None: there are not two."""
    inside = [each for each in run.progress if begin_seconds <= each[0] <= end_seconds]
    if len(inside) < 2 or inside[-1][1] == inside[0][1]:
        return None
    (from_seconds, first), (to_seconds, last) = inside[0], inside[-1]
    alone_seconds = (last - first) / run.steps * kinds[run.kind].train_seconds
    return alone_seconds / (to_seconds - from_seconds)


def _template(run: JobRun) -> MeasuredTemplate:
    profile = run.profile
    if profile is None:
        raise ClusterError(f"{run.name} ended without a profile in its status")
    return MeasuredTemplate(
        run.train_seconds,
        profile.persistent_bytes,
        profile.ephemeral_bytes,
        profile.iteration_microseconds,
        profile.data_microseconds,
    )
