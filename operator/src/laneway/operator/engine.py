"""The loop that acts: one cycle after another, each from the whole state of the cluster.

A cycle freezes the cache, decides (:mod:`laneway.operator.deciding`) and carries the statements out: per job first the status,
which records the intent, then its objects. So whoever finds a status finds out what was meant, and one cycle's end is the next
one's start. Cycles never overlap; only the leader's engine runs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable

from laneway.api.training_job import TrainingJobSpec
from laneway.operator.apiserver import ApiError, ApiServer, UnknownOutcome
from laneway.operator.cache import ClusterCache
from laneway.operator.collector import paused_collector
from laneway.operator.config import OperatorConfig
from laneway.operator.deciding import Decision, JobStatement, Memory, decide
from laneway.operator.events import event_of
from laneway.operator.leader import Leadership
from laneway.operator.logs import CYCLE
from laneway.operator.manifests import rendezvous_service, worker_pod
from laneway.operator.metrics import Figures, Metrics
from laneway.operator.node_orders import NodeStatement
from laneway.operator.orphans import Orphans
from laneway.operator.records.job_record import JobRecord
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.relist import find_job_uid, refresh_job, relist
from laneway.operator.templates import to_node
from laneway.operator.writer import FencedOff, Refused, Writer

logger = logging.getLogger(__name__)

_ORDER_RETRY_SECONDS = 0.2
"""A node writes its own object about once a second; then the watch has brought what it wrote."""

_RETRY_SECONDS = 1.0
"""Wait after a cycle that the API server did not answer."""


class Engine:
    """Decides and acts while this replica leads."""

    def __init__(
        self,
        config: OperatorConfig,
        api: ApiServer,
        cache: ClusterCache,
        writer: Writer,
        metrics: Metrics,
        leadership: Leadership,
        *,
        wall: Callable[[], float],
    ) -> None:
        self._config = config
        self._policies = config.scheduling.policies()
        self._api = api
        self._cache = cache
        self._writer = writer
        self._metrics = metrics
        self._leadership = leadership
        self._wall = wall
        self._changed = asyncio.Event()
        self._slots = asyncio.Semaphore(config.cycle.parallel_writes)
        self._orphans = Orphans(config.patience.orphan_seconds)
        self._cycles = 0
        self._due_seconds = 0.0
        self._listed_seconds: float | None = None
        self._refusals: dict[tuple[str, int], str] = {}
        self._written_seconds: dict[str, float] = {}
        self._doubtful: dict[str, JobRecord] = {}
        self._with_service: set[str] = set()
        self.last_sign_seconds = wall()
        """When the engine last showed that it is alive."""

    @property
    def synced(self) -> bool:
        """Whether the cache has been filled since this replica began to lead."""
        return self._listed_seconds is not None

    def wake(self) -> None:
        """Have a cycle run soon."""
        self._changed.set()

    async def run(self) -> None:
        """Run cycles for ever, whenever something changed or is due."""
        while True:
            await self._rest()
            self.last_sign_seconds = self._wall()
            if not self._leadership.leads:
                self._stand_by()
                continue
            self._cycles += 1
            token = CYCLE.set(f"{self._leadership.identity[-8:]}-{self._cycles}")
            try:
                await self._catch_up()
                await self.cycle()
            except FencedOff as error:
                logger.warning("the cycle ends early", extra={"problem": str(error)})
                self._stand_by()
            except (ApiError, UnknownOutcome) as error:
                logger.warning("the API server does not answer as it should", extra={"problem": str(error)})
                self._due_seconds = self._wall() + _RETRY_SECONDS
            finally:
                CYCLE.reset(token)

    async def cycle(self) -> Decision:
        """Decide once and carry it out.

        Raises:
            FencedOff: this replica does not lead any more; what was not written is not.
        """
        began_seconds = time.monotonic()
        now_seconds = self._wall()
        view = self._cache.freeze(self._config.patience.silent_node_seconds)
        memory = Memory(self._refusals, self._written_seconds)
        with paused_collector():
            decision = decide(view, memory, self._policies, self._config, now_seconds)
        if decision.problem:
            logger.error("no plan was made", extra={"problem": decision.problem})
        self._metrics.show(decision.figures)
        self._due_seconds = decision.due_seconds
        await self._together(self._carry_out(statement, now_seconds) for statement in decision.statements)
        await self._together(self._order(statement) for statement in decision.orders)
        await self._together(self._remove(pod) for pod in self._orphans.overdue(view, now_seconds))
        self._forget_gone_jobs({job.uid for job in view.jobs})
        took_seconds = time.monotonic() - began_seconds
        self._metrics.cycle_duration.observe(took_seconds)
        logger.debug(
            "cycle", extra={"statements": len(decision.statements), "seconds": round(took_seconds, 4)}
        )
        return decision

    async def _rest(self) -> None:
        wait_seconds = (
            self._due_seconds - self._wall() if self._leadership.leads else self._config.cycle.resync_seconds
        )
        try:
            # A timer that lies in the past must not turn the loop into a busy one.
            await asyncio.wait_for(self._changed.wait(), max(wait_seconds, 0.05))
        except TimeoutError:
            return
        await asyncio.sleep(self._config.cycle.debounce_milliseconds / 1000)
        self._changed.clear()

    def _stand_by(self) -> None:
        self._listed_seconds = None
        self._refusals.clear()
        self._doubtful.clear()
        self._metrics.show(Figures())

    async def _catch_up(self) -> None:
        """Read anew what the cache may not know."""
        now_seconds = self._wall()
        if (
            self._listed_seconds is None
            or now_seconds - self._listed_seconds >= self._config.cycle.relist_seconds
        ):
            await relist(self._api, self._cache)
            self._listed_seconds = now_seconds
            self._doubtful.clear()
        while self._doubtful:
            uid, job = next(iter(self._doubtful.items()))
            await refresh_job(self._api, self._cache, job)
            del self._doubtful[uid]

    async def _together(self, steps: Iterable[Awaitable[None]]) -> None:
        """Carry out steps that do not depend on one another; all come to an end before an error is raised."""
        for result in await asyncio.gather(*steps, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _carry_out(self, statement: JobStatement, now_seconds: float) -> None:
        """Write all that concerns one job. What goes wrong for one job stops no other."""
        job = statement.job
        try:
            if statement.write:
                async with self._slots:
                    await self._writer.write_status(job, statement.status)
                self._note(statement, now_seconds)
            if statement.creates and job.wish is not None:
                await self._create(statement, job.wish.spec)
            await self._together(self._delete(pod) for pod in statement.doomed)
            await self._together(self._forsake(pod) for pod in statement.forsaken)
            if statement.expired:
                async with self._slots:
                    await self._writer.delete_job(job)
        except Refused as error:
            logger.warning("an object was refused", extra={"job": job.key, "problem": str(error)})
            self._refusals[job.uid, statement.status.attempt] = str(error)
            self.wake()
        except (ApiError, UnknownOutcome) as error:
            self._doubt(job, error)
        except FencedOff:
            raise
        except Exception as error:
            logger.exception("a job's objects could not be made", extra={"job": job.key})
            text = f"the operator could not make the job's objects ({type(error).__name__}: {error}); see its log"
            self._refusals[job.uid, statement.status.attempt] = text
        finally:
            self.last_sign_seconds = self._wall()

    def _doubt(self, job: JobRecord, error: ApiError | UnknownOutcome) -> None:
        logger.info(
            "a write did not go through; the job is read anew", extra={"job": job.key, "problem": str(error)}
        )
        self._doubtful[job.uid] = job
        self._with_service.discard(job.uid)
        stale = isinstance(error, ApiError) and error.status in (404, 409)
        if stale:
            self.wake()
        else:
            self._due_seconds = min(self._due_seconds, self._wall() + _RETRY_SECONDS)

    def _note(self, statement: JobStatement, now_seconds: float) -> None:
        """Tell the log, the metrics and the job's events what has been written."""
        job, status = statement.job, statement.status
        self._written_seconds[job.uid] = now_seconds
        for number, happening in enumerate(statement.happenings):
            level = logging.WARNING if happening.warning else logging.INFO
            logger.log(level, happening.message, extra={"job": job.key, "reason": happening.reason})
            reporter = self._leadership.identity
            self._writer.record(event_of(job, happening, CYCLE.get(), number, reporter, now_seconds))
            if happening.reason == "Rollback":
                self._metrics.gang_rollbacks.inc()
        self._metrics.preemptions.inc(status.preemptions - job.status.preemptions)
        if statement.waited_seconds is not None:
            self._metrics.wait_duration.observe(statement.waited_seconds)

    async def _create(self, statement: JobStatement, spec: TrainingJobSpec) -> None:
        job, attempt = statement.job, statement.status.attempt
        if spec.workers > 1 and job.uid not in self._with_service:
            async with self._slots:
                await self._writer.create_service(job, rendezvous_service(job))
            self._with_service.add(job.uid)

        async def create(manifest: dict[str, object]) -> None:
            async with self._slots:
                await self._writer.create_pod(job, manifest)

        profile = None if statement.profile is None else to_node(statement.profile)
        await self._together(
            create(worker_pod(job, spec, worker, attempt, profile)) for worker in statement.creates
        )

    async def _delete(self, pod: WorkerPod) -> None:
        async with self._slots:
            await self._writer.delete_pod(pod)

    async def _forsake(self, pod: WorkerPod) -> None:
        extra = {"pod": f"{pod.namespace}/{pod.name}", "node": pod.node}
        logger.warning("a worker is removed without its node, which does not answer", extra=extra)
        async with self._slots:
            await self._writer.delete_pod(pod, forsake=True)

    async def _order(self, statement: NodeStatement) -> None:
        """Order a node what it is to be ordered; one that has changed meanwhile is looked at again at once."""
        if statement.jobs & self._doubtful.keys():
            return  # why it is ordered has not been written
        try:
            async with self._slots:
                await self._writer.write_orders(statement)
            logger.info(
                "orders were written", extra={"node": statement.node.name, "orders": len(statement.orders)}
            )
        except (ApiError, UnknownOutcome) as error:
            logger.info("orders were not written", extra={"node": statement.node.name, "problem": str(error)})
            self._due_seconds = min(self._due_seconds, self._wall() + _ORDER_RETRY_SECONDS)

    async def _remove(self, pod: WorkerPod) -> None:
        """Delete a worker without a job, after asking the API server whether there really is none."""
        if await find_job_uid(self._api, pod.namespace, pod.job_name) == pod.job_uid:
            self._listed_seconds = None  # the cache missed the job: list anew before anything else
            return
        logger.warning("a worker whose job is gone is deleted", extra={"pod": f"{pod.namespace}/{pod.name}"})
        await self._delete(pod)

    def _forget_gone_jobs(self, uids: set[str]) -> None:
        self._written_seconds = {uid: when for uid, when in self._written_seconds.items() if uid in uids}
        self._refusals = {key: text for key, text in self._refusals.items() if key[0] in uids}
        self._with_service &= uids
