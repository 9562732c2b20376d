"""Measures a job's throughput with fewer and more CPUs, while it runs (Synergy, OSDI'22, section 3.2).

The first job of a template on a GPU model is tried with what it requests, with half of that where its spec allows it, and with all
that is idle; if that is far more, with something between. The nodes count its iterations. What was measured is kept in its status,
and by that in its TrainingProfile; the other jobs of the template are not tried again.

Only a job that shares its GPUs with no other is measured, and only one whose CPUs are limited to what it requests: another uses
idle CPUs in any case.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from laneway.api.training_job_status import ProfileStatus
from laneway.operator.cycle.shared_speeds import Count
from laneway.operator.lifecycle.cpus import points_of, with_points
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.pacing import PROBE_ITERATIONS, PROBE_LONGEST_SECONDS, PROBE_SECONDS
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.trainer_cpus import RequestedCPUs
from laneway.scheduling.model.cpu_points import CPUPoints, is_measured, merged

_WORTH_RATIO = 1.25
"""More CPUs than requested are tried if there are that many times as many, unless so many were tried already."""

_FAR_RATIO = 3.0
"""If the most that was tried is that many times the request, something between them is tried as well."""


@dataclass(frozen=True, slots=True)
class _Window:
    """What was counted when a measurement began."""

    cpu_millis: int
    count: Count
    counts: bool
    """Whether the count was reported after the CPUs had changed."""


@dataclass(frozen=True, slots=True)
class _Probe:
    """The CPUs with which a job is tried now, in thousandths for each trainer."""

    cpu_millis: int
    nodes: frozenset[str]
    until_seconds: float
    """When it is given up."""


class CPUProbes:
    """What was measured of running jobs, and what is tried now. Lost at a restart, except for what statuses have."""

    def __init__(self) -> None:
        self._counted: set[str] = set()
        """Uids of jobs whose iterations are counted now, alone on their GPUs."""

        self._windows: dict[str, _Window] = {}
        """By uid."""

        self._points: dict[str, dict[int, int]] = {}
        """By uid: see :data:`CPUPoints`."""

        self._probes: dict[str, _Probe] = {}
        """By uid."""

        self._given_up: dict[str, int] = {}
        """By uid: the attempt in which nothing is tried any more."""

        self._workers: dict[str, int] = {}
        """By uid: the number of workers with which all of this was measured."""

    def forget(self, uid: str) -> None:
        """Forget a job that is gone."""
        self._counted.discard(uid)
        for each in (self._windows, self._points, self._probes, self._given_up, self._workers):
            each.pop(uid, None)

    def note(self, uid: str, count: Count | None, cpu_millis: int | None, workers: int) -> None:
        """Note what nodes have counted.

        Args:
            uid: the job.
            count: what is counted now; None: nothing, or it does not count.
            cpu_millis: CPUs of each trainer; None: they are being changed, or not limited.
            workers: of the current attempt, else of the last one. With another number, each may prepare another part of the batch: what was
                measured before does not count.
        """
        if self._workers.setdefault(uid, workers) != workers:
            self.forget(uid)
            self._workers[uid] = workers
        if count is None or count.sharers:
            self._windows.pop(uid, None)
            self._counted.discard(uid)
            return
        self._counted.add(uid)
        if cpu_millis is None:
            self._windows.pop(uid, None)
            return
        window = self._windows.get(uid)
        if (
            window is None
            or (window.cpu_millis, window.count.attempt) != (cpu_millis, count.attempt)
            or count.iterations < window.count.iterations
        ):
            self._windows[uid] = _Window(cpu_millis, count, counts=False)
            return
        if not window.counts:
            if count.at_seconds > window.count.at_seconds:
                self._windows[uid] = _Window(cpu_millis, count, counts=True)
            return
        iterations = count.iterations - window.count.iterations
        seconds = count.at_seconds - window.count.at_seconds
        if iterations >= PROBE_ITERATIONS and seconds >= PROBE_SECONDS:
            point = {cpu_millis: max(1, round(1e6 * seconds / iterations))}
            self._points[uid] = merged(self._points.get(uid, {}), point)
            self._windows[uid] = _Window(cpu_millis, count, counts=True)

    def counts(self, uid: str) -> bool:
        """Whether a job's iterations are counted now, and it shares its GPUs with no other."""
        return uid in self._counted

    def added(self, uid: str, profile: ProfileStatus, workers: int) -> ProfileStatus:
        """Return a job's profile with what was measured of it with this number of workers."""
        points = self._points.get(uid)
        if not points or self._workers.get(uid) != workers:
            return profile
        return with_points(profile, merged(points_of(profile), points))

    def target(
        self,
        job: ReconciledJob,
        asks: RequestedCPUs,
        known: CPUPoints,
        most_millis: int,
        now_seconds: float,
    ) -> int | None:
        """Return the CPUs with which each trainer of a job is to be tried now; None: it is not tried.

        Args:
            job: a job that runs alone on its GPUs.
            asks: what it asks for.
            known: what was measured of its template.
            most_millis: what each trainer could have of its node.
            now_seconds: Unix time.
        """
        uid, attempt = job.job.uid, job.job.status.attempt
        if asks.limit_millis != asks.request_millis or self._given_up.get(uid) == attempt:
            self._probes.pop(uid, None)
            return None
        known = merged(known, self._points.get(uid, {}))
        probe = self._probes.get(uid)
        if probe is not None and not is_measured(known, probe.cpu_millis):
            if now_seconds < probe.until_seconds:
                return probe.cpu_millis
            self._given_up[uid] = attempt
            del self._probes[uid]
            return None
        self._probes.pop(uid, None)
        nodes = frozenset(each.node for each in job.holds)
        for millis in _worth_trying(asks, known, most_millis):
            if millis > asks.request_millis and self._is_taken(nodes):
                return asks.request_millis  # another job is tried with what is idle there
            self._probes[uid] = _Probe(millis, nodes, now_seconds + PROBE_LONGEST_SECONDS)
            return millis
        return None

    def drop(self, uid: str) -> None:
        """Stop to try a job for now: its node has other use for the CPUs."""
        self._probes.pop(uid, None)

    def _is_taken(self, nodes: Collection[str]) -> bool:
        return any(not each.nodes.isdisjoint(nodes) for each in self._probes.values())


def _worth_trying(asks: RequestedCPUs, known: CPUPoints, most_millis: int) -> list[int]:
    """Return the CPUs at which a template is still to be measured. What it requests comes first: nothing changes meanwhile, and a job
    whose iterations nobody counts is found out."""
    request = asks.request_millis
    found = [request, max(asks.fewest_millis, request // 2)]
    more = sorted(millis for millis in known if millis >= _WORTH_RATIO * request)
    if not more and most_millis >= _WORTH_RATIO * request:
        found.append(most_millis)
    if len(more) == 1 and more[0] >= _FAR_RATIO * request:
        found.append(min(most_millis, round(math.sqrt(request * more[0]))))
    return [millis for millis in found if not is_measured(known, millis)]


def limited_cpus(job: ReconciledJob, state: ClusterState) -> int | None:
    """Return the CPUs to which each trainer of a job is limited, the fewest where they differ; None while they change, and where no
    limit holds them to what they request."""
    desired, attempt = job.job.desired, job.job.status.attempt
    if desired is None or desired.cpus is None or desired.cpus.limit_millis != desired.cpus.request_millis:
        return None
    mine = [pod.cpus for pod in state.pods.get(job.job.uid, ()) if pod.attempt == attempt]
    if not mine or not all(cpus is not None and cpus.settled for cpus in mine):
        return None
    return min(cpus.allocated_millis for cpus in mine if cpus is not None)
