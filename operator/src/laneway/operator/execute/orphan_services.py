"""Services of gangs that Kubernetes' garbage collector does not know, or does not delete: as with workers (:mod:`laneway.operator.execute.orphans`).

One whose job is gone is deleted after a while; one of a living job that has lost its owner reference goes back to its job. Unlike a
worker, a Service holds nothing that others wait for, so a look at each list of everything is often enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from laneway.operator.state.records.gang_service import GangService
from laneway.operator.state.records.job_record import JobRecord


@dataclass(frozen=True, slots=True)
class ServiceFindings:
    """What is to be done about Services without an owner."""

    overdue: tuple[GangService, ...] = ()
    """Their job is gone: to be deleted, after another look at the API server."""

    adoptable: tuple[tuple[JobRecord, GangService], ...] = ()
    """To be given back to their job, after another look at the API server."""


class OrphanServices:
    """Remembers since when a Service has had no job."""

    def __init__(self, orphan_seconds: float) -> None:
        """Wait so long until a Service without a job is deleted: the garbage collector takes its time."""
        self._orphan_seconds = orphan_seconds
        self._since_seconds: dict[str, float] = {}

    def find(
        self, services: Iterable[GangService], jobs: Iterable[JobRecord], now_seconds: float
    ) -> ServiceFindings:
        """Return those among all Services that are due."""
        by_uid = {job.uid: job for job in jobs}
        orphans, adoptable = [], []
        for service in services:
            job = by_uid.get(service.job_uid)
            if job is None:
                orphans.append(service)
            elif not service.owned and not job.deleting and service.namespace == job.namespace:
                adoptable.append((job, service))
        return ServiceFindings(self._overdue(orphans, now_seconds), tuple(adoptable))

    def _overdue(self, orphans: list[GangService], now_seconds: float) -> tuple[GangService, ...]:
        before = self._since_seconds
        self._since_seconds = {each.uid: before.get(each.uid, now_seconds) for each in orphans}
        return tuple(
            each for each in orphans if now_seconds - self._since_seconds[each.uid] >= self._orphan_seconds
        )
