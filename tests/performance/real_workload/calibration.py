"""Measures the costs on this machine, on jobs of their own before the workload and never on the workload itself.

- Gangs of one, two and four workers run alone. They give the time from placement to running processes, the setup time, and the
  time from the last step to the end.
- Two gangs of four workers, then four gangs of two, fill the cluster, and a new gang of four preempts some of them. They give
  the time that a preempted job takes to leave, the idle time of GPUs after a job's end, and the setup time of eight workers at
  once.

The scripts print when they began, trained and ended; the operator's events show when it decided.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from laneway.api.rfc3339 import parse_time

from hack.cluster.progress import ClusterError, report
from hack.demo.jobs import JobView
from hack.demo.output import Outputs, WorkerOutput
from tests.performance.real_workload.live_cluster import LiveCluster
from tests.performance.real_workload.workload import WorkloadJob

GPUS = 8
_ALONE_STEPS = 10
_HOLDER_STEPS = 80
_NEWCOMER_STEPS = 10
_ALONE_TIMEOUT_SECONDS = 120.0
_PREEMPTION_TIMEOUT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class MeasuredCosts:
    """Times in seconds, each a mean over the calibration's jobs."""

    decision_seconds: float
    """From the submission of a job to its being placed on idle GPUs."""

    start_seconds: float
    """From being placed to the last worker's process running."""

    setup_seconds_by_workers: Mapping[int, float]
    """From there to the first step, by how many workers set up at once on the machine."""

    exit_seconds_by_workers: Mapping[int, float]
    """From the last step to the end of the last worker, by workers of the gang."""

    notice_seconds: float
    """From there until the operator knows that the job succeeded. Until then the operator may still preempt it."""

    end_seconds: float
    """From the end of a job to the start of another on its GPUs."""

    leave_seconds: float
    """From a preemption to the start of the one for whom it was."""

    samples: Mapping[str, int]
    """How many measurements each of these is the mean of."""


def calibrate(cluster: LiveCluster, gpus: int = GPUS) -> MeasuredCosts:
    """Run the calibration's jobs and measure.

    Args:
        cluster: with a configuration under which jobs of half a minute are preempted.
        gpus: how many it has, 4 or more.

    Raises:
        ClusterError: a job failed or took too long, or no job was preempted.
    """
    samples = _Samples(cluster)
    for workers in (1, 2, 4):
        for attempt in ("a", "b"):
            report(f"calibration: {workers} alone")
            samples.alone(WorkloadJob(f"alone-{workers}{attempt}", 0.0, workers, 100, _ALONE_STEPS))
    for workers in (4, 2):
        report(f"calibration: gangs of {workers} are preempted")
        samples.preempted(workers, gpus)
    cluster.jobs.delete_all()
    return samples.costs()


class _Samples:
    """Measurements as they come in."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster
        self._outputs = Outputs(cluster.api, cluster.namespace)
        self._decisions: list[float] = []
        self._starts: list[float] = []
        self._notices: list[float] = []
        self._ends: list[float] = []
        self._leaves: list[float] = []
        self._setups: dict[int, list[float]] = defaultdict(list)
        self._exits: dict[int, list[float]] = defaultdict(list)

    def alone(self, job: WorkloadJob) -> None:
        """Measure a job that has the cluster to itself."""
        submitted_seconds = self._cluster.submit(job)
        views = self._end([job], _ALONE_TIMEOUT_SECONDS)
        self._decisions.append(_times(self._happened(job.name), "Placed")[0] - submitted_seconds)
        self._note_start(job, job.workers)
        self._note_exits([job], views)

    def preempted(self, workers: int, gpus: int) -> None:
        """Fill the cluster with gangs of a size, and have a newcomer of four workers preempt some of them."""
        holders = [
            WorkloadJob(f"holder-{workers}-{number}", 0.0, workers, 100, _HOLDER_STEPS)
            for number in range(gpus // workers)
        ]
        for holder in holders:
            self._cluster.submit(holder)
        self._cluster.wait(
            [holder.name for holder in holders],
            lambda job: job.status.queue > 0 and self._trains(job),
            _ALONE_TIMEOUT_SECONDS,
            self._follow,
        )
        newcomer = WorkloadJob(f"newcomer-{workers}", 0.0, 4, 100, _NEWCOMER_STEPS)
        self._cluster.submit(newcomer)
        views = self._end([*holders, newcomer], _PREEMPTION_TIMEOUT_SECONDS)
        for holder in holders:
            self._note_start(holder, gpus)
        self._note_exits([*holders, newcomer], views)
        self._note_turnover([*holders, newcomer], newcomer, views)

    def _trains(self, job: JobView) -> bool:
        workers = [self._outputs.attempts(job.name, rank) for rank in range(job.workers)]
        return all(outputs and _has_said(outputs[0], "start") for outputs in workers)

    def costs(self) -> MeasuredCosts:
        """Return the means."""
        lists = {
            "decision_seconds": self._decisions,
            "start_seconds": self._starts,
            "notice_seconds": self._notices,
            "end_seconds": self._ends,
            "leave_seconds": self._leaves,
            **{f"setup of {workers}": values for workers, values in self._setups.items()},
            **{f"exit of {workers}": values for workers, values in self._exits.items()},
        }
        missing = [name for name, values in lists.items() if not values]
        if missing:
            raise ClusterError(
                f"the calibration measured no {', '.join(missing)}: no job was preempted for a newcomer"
            )
        return MeasuredCosts(
            fmean(self._decisions),
            fmean(self._starts),
            {workers: fmean(values) for workers, values in sorted(self._setups.items())},
            {workers: fmean(values) for workers, values in sorted(self._exits.items())},
            fmean(self._notices),
            fmean(self._ends),
            fmean(self._leaves),
            {name: len(values) for name, values in lists.items()},
        )

    def _end(self, jobs: Sequence[WorkloadJob], timeout_seconds: float) -> dict[str, JobView]:
        job_names = [job.name for job in jobs]
        views = self._cluster.wait(job_names, lambda job: job.ended, timeout_seconds, self._follow)
        self._outputs.settle()
        return views

    def _follow(self, views: object) -> None:
        self._outputs.follow(self._cluster.jobs.pods())

    def _note_start(self, job: WorkloadJob, at_once: int) -> None:
        """Measure how a job first started, while a number of workers set up."""
        outputs = [self._outputs.attempts(job.name, rank)[0] for rank in range(job.workers)]
        began_seconds = max(_said(output, "began") for output in outputs)
        placed_seconds = _times(self._happened(job.name), "Placed")[0]
        self._starts.append(began_seconds - placed_seconds)
        self._setups[at_once].append(max(_said(output, "start") for output in outputs) - began_seconds)

    def _note_exits(self, jobs: Iterable[WorkloadJob], views: Mapping[str, JobView]) -> None:
        """Measure how long jobs took to end, and how long the operator took to notice."""
        for job in jobs:
            completed_seconds = parse_time(views[job.name].status.completion_time or "")
            last = [self._outputs.attempts(job.name, rank)[-1] for rank in range(job.workers)]
            self._exits[job.workers].append(completed_seconds - max(_said(output, "end") for output in last))
            self._notices.append(_times(self._happened(job.name), "Completed")[0] - completed_seconds)

    def _note_turnover(
        self, jobs: Sequence[WorkloadJob], newcomer: WorkloadJob, views: Mapping[str, JobView]
    ) -> None:
        """Measure how long GPUs stayed idle from one job to the next."""
        happened = {job.name: self._happened(job.name) for job in jobs}
        placed_seconds = _times(happened[newcomer.name], "Placed")[0]
        preempted = [time for events in happened.values() for time in _times(events, "Preempted")]
        for_it = [time for time in preempted if time <= placed_seconds]  # others may be preempted later
        if not for_it:
            raise ClusterError(f"no job was preempted for {newcomer.name}")
        self._leaves.append(placed_seconds - max(for_it))
        completed = [
            parse_time(view.status.completion_time or "") for view in map(views.__getitem__, happened)
        ]
        for events in happened.values():
            for placed_again in _times(events, "Placed")[1:]:
                before = [time for time in completed if time < placed_again]
                if before:
                    self._ends.append(placed_again - max(before))

    def _happened(self, job: str) -> list[tuple[float, str]]:
        about = {"kind": "TrainingJob", "name": job}
        events = self._cluster.api.items(
            f"/apis/events.k8s.io/v1/namespaces/{self._cluster.namespace}/events"
        )
        return sorted(
            (parse_time(event["eventTime"]), event["reason"])
            for event in events
            if about.items() <= event["regarding"].items()
        )


def _times(happened: Iterable[tuple[float, str]], reason: str) -> list[float]:
    return [seconds for seconds, what in happened if what == reason]


def _has_said(output: WorkerOutput, event: str) -> bool:
    return any(said["event"] == event for said in output.events)


def _said(output: WorkerOutput, event: str) -> float:
    for said in output.events:
        if said["event"] == event:
            return float(said["seconds"])
    raise ClusterError(f"worker {output.rank} of {output.job} did not print {event!r}: {output.lines[-5:]}")
