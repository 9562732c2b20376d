"""What becomes of workers that have lost their owner: found in what is known, looked at once more on the API server, then deleted or
given back to their job. They are looked at after each decision, because they hold GPUs.
"""

from __future__ import annotations

import logging

from laneway.operator.execute.executor import Executor
from laneway.operator.execute.orphans import Orphans
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.watch.apiserver import ApiError, ApiServer
from laneway.operator.watch.relist import find_job_uid, is_alive

logger = logging.getLogger(__name__)


class GarbageCollector:
    """Looks after what has lost its owner, for the replica that leads."""

    def __init__(self, api: ApiServer, executor: Executor, orphan_seconds: float) -> None:
        """Delete what has had no job for so long."""
        self._api = api
        self._executor = executor
        self._orphans = Orphans(orphan_seconds)

    async def collect_workers(self, state: ClusterState, now_seconds: float) -> bool:
        """Delete or adopt the workers that are due; return False if one's job exists on the API server but not in the cache.

        Raises:
            ApiError, FencedOff, UnknownOutcome
        """
        found, jobs_known = self._orphans.find(state, now_seconds), True
        for pod in found.overdue:
            jobs_known &= await self._remove(pod)
        for job, pod in found.adoptable:
            await self._give_back(job, pod)
        for pod in found.mismatched_pods:
            extra = {"pod": f"{pod.namespace}/{pod.name}"}
            logger.warning("deleting a mismatched pod", extra=extra)
            await self._executor.delete(pod)
        return jobs_known

    async def _remove(self, pod: WorkerPod) -> bool:
        """Delete a worker without a job; return False where the API server has that job after all."""
        if await find_job_uid(self._api, pod.namespace, pod.job_name) == pod.job_uid:
            return False
        logger.warning("deleting a worker whose job is gone", extra={"pod": f"{pod.namespace}/{pod.name}"})
        await self._executor.delete(pod)
        return True

    async def _give_back(self, job: JobRecord, pod: WorkerPod) -> None:
        """Give a worker back to its job, after asking the API server whether that lives."""
        extra = {"job": job.key, "pod": pod.name}
        try:
            if await is_alive(self._api, job):
                await self._executor.adopt(job, pod)
                logger.info("owner reference of a worker restored", extra=extra)
        except ApiError as error:
            if error.status >= 500:
                raise
            extra["problem"] = str(error)
            logger.warning("owner reference of a worker not restored", extra=extra)
