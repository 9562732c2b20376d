"""What becomes of workers and Services that have lost their owner: found in what is known, looked at once more on the API server, then
deleted or given back to their job.

Workers are looked at after each decision, because they hold GPUs; Services, which nobody watches, each time that everything is listed
anew.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from laneway.operator.apiserver import ApiError, ApiServer
from laneway.operator.cache import ClusterView
from laneway.operator.carrying_out import CarryingOut
from laneway.operator.orphan_services import OrphanServices
from laneway.operator.orphans import Orphans
from laneway.operator.records.gang_service import GangService
from laneway.operator.records.job_record import JobRecord
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.relist import find_job_uid, is_alive, list_gang_services

logger = logging.getLogger(__name__)

_MOST_SERVICES = 50
"""So many are deleted, and so many given back, at one look: the next decision waits for it, and no Service is urgent."""


class Tidying:
    """Looks after what has lost its owner, for the replica that leads."""

    def __init__(self, api: ApiServer, carrying: CarryingOut, patience_seconds: float) -> None:
        """Delete what has had no job for so long."""
        self._api = api
        self._carrying = carrying
        self._orphans = Orphans(patience_seconds)
        self._services = OrphanServices(patience_seconds)

    async def tidy_workers(self, view: ClusterView, now_seconds: float) -> bool:
        """See to the workers that are due; return whether each of them had what the cache says: False where it has missed a job.

        Raises:
            ApiError, FencedOff, UnknownOutcome
        """
        found, jobs_known = self._orphans.find(view, now_seconds), True
        for pod in found.overdue:
            jobs_known &= await self._remove(pod)
        for job, pod in found.adoptable:
            await self._give_back(job, "worker", pod.name, partial(self._carrying.adopt, job, pod))
        for pod in found.impostors:
            extra = {"pod": f"{pod.namespace}/{pod.name}"}
            logger.warning("a pod that pretends to be a worker is deleted", extra=extra)
            await self._carrying.delete(pod)
        return jobs_known

    async def tidy_services(self, jobs: Iterable[JobRecord], now_seconds: float) -> None:
        """List the Services, and see to those that are due.

        Raises:
            ApiError, FencedOff, UnknownOutcome
        """
        found = self._services.find(await list_gang_services(self._api), jobs, now_seconds)
        for service in found.overdue[:_MOST_SERVICES]:
            await self._remove_service(service)
        for job, service in found.adoptable[:_MOST_SERVICES]:
            adopt = partial(self._carrying.adopt_service, job, service)
            await self._give_back(job, "Service", service.name, adopt)

    async def _remove(self, pod: WorkerPod) -> bool:
        """Delete a worker without a job; return False where the API server has that job after all."""
        if await find_job_uid(self._api, pod.namespace, pod.job_name) == pod.job_uid:
            return False
        logger.warning("a worker whose job is gone is deleted", extra={"pod": f"{pod.namespace}/{pod.name}"})
        await self._carrying.delete(pod)
        return True

    async def _remove_service(self, service: GangService) -> None:
        """Delete a Service without a job, unless the API server has that job after all."""
        if await find_job_uid(self._api, service.namespace, service.name) == service.job_uid:
            return
        extra = {"service": f"{service.namespace}/{service.name}"}
        try:
            await self._carrying.delete_service(service)
            logger.warning("a Service whose job is gone is deleted", extra=extra)
        except ApiError as error:
            if error.status >= 500:
                raise
            logger.warning("a Service whose job is gone stays", extra={**extra, "problem": str(error)})

    async def _give_back(
        self, job: JobRecord, what: str, name: str, adopt: Callable[[], Awaitable[None]]
    ) -> None:
        """Give something back to its job, after asking the API server whether that lives."""
        extra = {"job": job.key, "object": name}
        try:
            if await is_alive(self._api, job):
                await adopt()
                logger.info("a %s that had lost its owner reference has it back", what, extra=extra)
        except ApiError as error:
            if error.status >= 500:
                raise
            extra["problem"] = str(error)
            logger.warning("a %s without its owner reference stays so", what, extra=extra)
