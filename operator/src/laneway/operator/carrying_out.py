"""Carries statements out, each as a task of its own: per job first the status, which records the intent, then its objects.

So whoever finds a status finds out what was meant. The engine does not wait for the writes: it goes on deciding about other jobs, and
leaves those alone that are *busy* here. Statements that let jobs start wait for one another in a line of their own, so that a job that is to
stop is never behind thousands of pods that are to be made.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from laneway.api.training_job import TrainingJobSpec
from laneway.operator.apiserver import ApiError, UnknownOutcome
from laneway.operator.events import event_of
from laneway.operator.leader import Leadership
from laneway.operator.logs import CYCLE
from laneway.operator.manifests import rendezvous_service, worker_pod
from laneway.operator.memory import Memory
from laneway.operator.metrics import Metrics
from laneway.operator.node_orders import NodeStatement
from laneway.operator.records.gang_service import GangService
from laneway.operator.records.job_record import JobRecord
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.releases import Releases
from laneway.operator.statements import JobStatement
from laneway.operator.templates import to_node
from laneway.operator.writer import FencedOff, Refused, Writer

logger = logging.getLogger(__name__)

_STARTS_OF_ALL = 0.75
"""Of the writes that may be under way at the same time, so many may be those of jobs that start."""

_RETRY_SECONDS = 1.0
"""A job, or a node's orders, is left alone for so long after a write that the API server did not answer, or answered with an error of its own."""


class Outdated(Exception):  # noqa: N818 - nothing went wrong: the next cycle knows more
    """What a statement was decided from is no longer so; the text says what."""


class CarryingOut:
    """Writes under way, and what came of those that ended."""

    def __init__(
        self,
        writer: Writer,
        metrics: Metrics,
        leadership: Leadership,
        parallel_writes: int,
        *,
        unchanged: Callable[[Iterable[WorkerPod]], Awaitable[bool]],
        ended: Callable[[bool], None],
        wall: Callable[[], float],
    ) -> None:
        """Write by ``writer``; ``ended`` is called when the writes about a job have ended, and told whether it is to be looked at again
        soon: they were about a step in its life, or it has changed meanwhile; ``unchanged`` reads workers anew, and returns whether they are what they were."""
        self._unchanged = unchanged
        self._releases = Releases()
        self._writer = writer
        self._metrics = metrics
        self._leadership = leadership
        self._ended = ended
        self._wall = wall
        starts = max(1, int(parallel_writes * _STARTS_OF_ALL))
        self._starts = asyncio.Semaphore(starts)
        self._others = asyncio.Semaphore(max(1, parallel_writes - starts))
        self._tasks: set[asyncio.Task[None]] = set()
        self._served: dict[str, int] = {}
        """By the uid of a gang: the attempt in which its Service was last seen to."""

        self.busy: set[str] = set()
        """Uids of jobs that are being written about."""

        self.ordering: set[str] = set()
        """Names of nodes whose orders are being written."""

        self.doubtful: dict[str, JobRecord] = {}
        """Jobs that have to be read anew, by uid: nobody knows what became of a write, or it met another version."""

        self.doubtful_nodes: set[str] = set()
        """Names of nodes that have to be read anew: orders met another version, or nobody knows what became of them."""

        self.fenced_off = False
        """A write was not made because this replica does not lead."""

        self.refusals: dict[tuple[str, int], str] = {}
        self.written_seconds: dict[str, float] = {}
        self.last_sign_seconds = wall()
        """When a write ended last."""

    def memory(self) -> Memory:
        """Return what the next decision is to know."""
        return Memory(self.refusals, self.written_seconds)

    def begin(self, statement: JobStatement, now_seconds: float) -> None:
        """Write all that concerns one job."""
        self.busy.add(statement.job.uid)
        self._releases.begin(statement)
        self._go(self._carry_out(statement, now_seconds))

    def begin_orders(self, statement: NodeStatement) -> None:
        """Order a node what it is to be ordered."""
        self.ordering.add(statement.node.name)
        self._go(self._order(statement))

    async def end(self) -> None:
        """Wait until all writes have ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def finish(self, seconds: float) -> None:
        """Wait until all writes have ended, at most so long, and give up the rest: this replica ends. Of a write that lands and whose answer
        nobody hears, no event is ever told: whoever leads next finds the status as it is to be."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()
        await self.end()

    def forget(self) -> None:
        """Forget what came of writes. None may be under way."""
        self.refusals.clear()
        self.doubtful.clear()
        self.doubtful_nodes.clear()
        self.fenced_off = False

    def forget_gone_jobs(self, uids: set[str]) -> None:
        """Forget what is known of jobs that are not among these."""
        if len(self.written_seconds) > len(uids) or self.refusals:
            self.written_seconds = {uid: when for uid, when in self.written_seconds.items() if uid in uids}
            self.refusals = {key: text for key, text in self.refusals.items() if key[0] in uids}
        for uid in self._served.keys() - uids:
            del self._served[uid]

    async def delete(self, pod: WorkerPod) -> None:
        """Ask for a pod's end.

        Raises:
            ApiError, FencedOff, UnknownOutcome
        """
        async with self._others:
            await self._writer.delete_pod(pod)

    async def adopt(self, job: JobRecord, pod: WorkerPod) -> None:
        """Make a job the controller of its worker again.

        Raises:
            ApiError, FencedOff, UnknownOutcome
        """
        async with self._others:
            await self._writer.adopt_pod(job, pod)

    async def delete_service(self, service: GangService) -> None:
        """Delete the Service of a job that is gone.

        Raises:
            ApiError, FencedOff, UnknownOutcome
        """
        async with self._others:
            await self._writer.delete_service(service)

    async def adopt_service(self, job: JobRecord, service: GangService) -> None:
        """Make a job the controller of its Service again.

        Raises:
            ApiError, FencedOff, UnknownOutcome
        """
        async with self._others:
            await self._writer.adopt_service(job, service)

    def _go(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, statement: JobStatement, now_seconds: float) -> None:
        """What goes wrong for one job stops no other."""
        job, soon = statement.job, statement.acts
        began_seconds = time.monotonic()
        try:
            soon |= await self._write(statement, now_seconds)
        except Refused as error:
            logger.warning("an object was refused", extra={"job": job.key, "problem": str(error)})
            self.refusals[job.uid, statement.status.attempt] = str(error)
        except (ApiError, UnknownOutcome) as error:
            self._doubt(job, error)
            if not isinstance(error, ApiError) or error.status not in (404, 409):
                await asyncio.sleep(_RETRY_SECONDS)
        except Outdated as error:
            logger.info("a statement is out of date", extra={"job": job.key, "problem": str(error)})
            if statement.yielding:
                self.doubtful[job.uid] = job
        except FencedOff as error:
            self.fenced_off = True
            logger.info("a write was not made", extra={"job": job.key, "problem": str(error)})
        except Exception as error:
            logger.exception("a job's objects could not be made", extra={"job": job.key})
            text = f"the operator could not make the job's objects ({type(error).__name__}: {error}); see its log"
            self.refusals[job.uid, statement.status.attempt] = text
        finally:
            self._releases.end(statement, written=False)
            self.busy.discard(job.uid)
            self.last_sign_seconds = self._wall()
            self._metrics.statement_duration.observe(time.monotonic() - began_seconds)
            self._ended(soon or job.uid in self.doubtful)

    async def _write(self, statement: JobStatement, now_seconds: float) -> bool:
        """Write it; return whether the job has changed since its status was written."""
        job, changed = statement.job, False
        slots = self._starts if statement.creates else self._others
        await self._look_again(statement)
        if statement.write:
            async with slots:
                changed = await self._writer.write_status(job, statement.status)
            self._releases.end(statement, written=True)
            self._note(statement, now_seconds)
        if statement.creates and job.wish is not None:
            await self._create(statement, job.wish.spec)
        await _together(self.delete(pod) for pod in statement.doomed)
        await _together(self._forsake(pod) for pod in statement.forsaken)
        if statement.expired:
            async with slots:
                await self._writer.delete_job(job)
        return changed

    async def _look_again(self, statement: JobStatement) -> None:
        """Ask anew what a preemption, and what a start, was decided from.

        Raises:
            Outdated: it is no longer so.
            ApiError, UnknownOutcome
        """
        if statement.yielding:
            async with self._others:
                unchanged = await self._unchanged(statement.yielding)
            if not unchanged:
                raise Outdated("a worker that was to make way has ended, or is gone")
        if not await self._releases.landed(statement):
            raise Outdated("others were to make way for it, or to give GPUs back, and that was not written")

    async def _create(self, statement: JobStatement, spec: TrainingJobSpec) -> None:
        job, attempt = statement.job, statement.status.attempt
        if spec.workers > 1:
            await self._see_to_service(job, attempt)

        async def create(manifest: dict[str, object]) -> None:
            async with self._starts:
                await self._writer.create_pod(job, manifest)

        profile = None if statement.profile is None else to_node(statement.profile)
        await _together(
            create(worker_pod(job, spec, worker, attempt, profile)) for worker in statement.creates
        )

    async def _see_to_service(self, job: JobRecord, attempt: int) -> None:
        """Once in each attempt: nobody watches Services, and without this one the workers do not find each other."""
        if self._served.get(job.uid) == attempt:
            return
        async with self._starts:
            await self._writer.create_service(job, rendezvous_service(job), look_first=attempt > 1)
        self._served[job.uid] = attempt

    async def _forsake(self, pod: WorkerPod) -> None:
        extra = {"pod": f"{pod.namespace}/{pod.name}", "node": pod.node}
        logger.warning("a worker is removed without its node, which does not answer", extra=extra)
        async with self._others:
            await self._writer.delete_pod(pod, forsake=True)

    async def _order(self, statement: NodeStatement) -> None:
        """Orders of a node that has changed meanwhile are looked at again at once, with what it is now."""
        name = statement.node.name
        try:
            async with self._others:
                await self._writer.write_orders(statement)
            logger.info("orders were written", extra={"node": name, "orders": len(statement.orders)})
        except (ApiError, UnknownOutcome) as error:
            logger.info("orders were not written", extra={"node": name, "problem": str(error)})
            self.doubtful_nodes.add(name)
            if not isinstance(error, ApiError) or error.status not in (404, 409):
                await asyncio.sleep(_RETRY_SECONDS)
        except FencedOff:
            self.fenced_off = True
        finally:
            self.ordering.discard(name)
            self._ended(True)

    def _doubt(self, job: JobRecord, error: ApiError | UnknownOutcome) -> None:
        logger.info(
            "a write did not go through; the job is read anew", extra={"job": job.key, "problem": str(error)}
        )
        self.doubtful[job.uid] = job
        self._served.pop(job.uid, None)

    def _note(self, statement: JobStatement, now_seconds: float) -> None:
        """Tell the log, the metrics and the job's events what has been written."""
        job, status = statement.job, statement.status
        self.written_seconds[job.uid] = now_seconds
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


async def _together(steps: Iterable[Awaitable[None]]) -> None:
    """Carry out steps that do not depend on one another; all come to an end before an error is raised."""
    for result in await asyncio.gather(*steps, return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
