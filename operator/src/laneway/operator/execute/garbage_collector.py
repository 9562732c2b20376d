"""What becomes of workers and Services that have lost their owner: found in what is known, looked at once more on the API server, then
deleted or given back to their job.

Workers are looked at after each decision, because they hold GPUs; Services, which are not watched, at each
relist.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from laneway.operator.execute.executor import Executor
from laneway.operator.execute.orphan_services import OrphanServices
from laneway.operator.execute.orphans import Orphans
from laneway.operator.pacing import SERVICES_COLLECTED_AT_ONCE
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.gang_service import GangService
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.watch.apiserver import ApiError, ApiServer
from laneway.operator.watch.relist import find_job_uid, is_alive, list_gang_services

logger = logging.getLogger(__name__)


class GarbageCollector:
    """Looks after what has lost its owner, for the replica that leads."""

    def __init__(self, api: ApiServer, executor: Executor, orphan_seconds: float) -> None:
        """Delete what has had no job for so long."""
        self._api = api
        self._executor = executor
        self._orphans = Orphans(orphan_seconds)
        self._services = OrphanServices(orphan_seconds)

    async def collect_workers(self, state: ClusterState, now_seconds: float) -> bool:
        """Delete or adopt the workers that are due; return False if one's job exists on the API server but not in the cache.

        Raises:
            ApiError, FencedOff, UnknownOutcome
        """
        found, jobs_known = self._orphans.find(state, now_seconds), True
        for pod in found.overdue:
            jobs_known &= await self._remove(pod)
        for job, pod in found.adoptable:
            await self._give_back(job, "worker", pod.name, partial(self._executor.adopt, job, pod))
        for pod in found.mismatched_pods:
            extra = {"pod": f"{pod.namespace}/{pod.name}"}
            logger.warning("deleting a mismatched pod", extra=extra)
            await self._executor.delete(pod)
        return jobs_known

    async def collect_services(self, jobs: Iterable[JobRecord], now_seconds: float) -> None:
        """List the Services, and see to those that are due.

        Raises:
            ApiError, FencedOff, UnknownOutcome
        """
        found = self._services.find(await list_gang_services(self._api), jobs, now_seconds)
        for service in found.overdue[:SERVICES_COLLECTED_AT_ONCE]:
            await self._remove_service(service)
        for job, service in found.adoptable[:SERVICES_COLLECTED_AT_ONCE]:
            adopt = partial(self._executor.adopt_service, job, service)
            await self._give_back(job, "Service", service.name, adopt)

    async def _remove(self, pod: WorkerPod) -> bool:
        """Delete a worker without a job; return False where the API server has that job after all."""
        if await find_job_uid(self._api, pod.namespace, pod.job_name) == pod.job_uid:
            return False
        logger.warning("deleting a worker whose job is gone", extra={"pod": f"{pod.namespace}/{pod.name}"})
        await self._executor.delete(pod)
        return True

    async def _remove_service(self, service: GangService) -> None:
        """Delete a Service without a job, unless the API server has that job after all."""
        if await find_job_uid(self._api, service.namespace, service.name) == service.job_uid:
            return
        extra = {"service": f"{service.namespace}/{service.name}"}
        try:
            await self._executor.delete_service(service)
            logger.warning("deleted a Service whose job is gone", extra=extra)
        except ApiError as error:
            if error.status >= 500:
                raise
            logger.warning("Service whose job is gone not deleted", extra={**extra, "problem": str(error)})

    async def _give_back(
        self, job: JobRecord, what: str, name: str, adopt: Callable[[], Awaitable[None]]
    ) -> None:
        """Give something back to its job, after asking the API server whether that lives."""
        extra = {"job": job.key, "object": name}
        try:
            if await is_alive(self._api, job):
                await adopt()
                logger.info("owner reference of a %s restored", what, extra=extra)
        except ApiError as error:
            if error.status >= 500:
                raise
            extra["problem"] = str(error)
            logger.warning("owner reference of a %s not restored", what, extra=extra)
