"""Executes writes, each as a task of its own: per job first the status, which records the intent, then its objects.

So a status always shows what was intended. The engine does not wait for the writes: it goes on deciding about other jobs, and
leaves alone those that are *in_flight* here. Writes that start jobs have request slots of their own, so that stopping a job
never waits behind the creation of thousands of pods.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from laneway.api.job_names import visible_jobs
from laneway.api.training_job import TrainingJobSpec
from laneway.operator.cycle.cpu_resizes import ResizeWrite
from laneway.operator.cycle.node_orders import NodeWrite
from laneway.operator.cycle.templates import ProfileWrite, to_node
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.cycle.writes import JobWrite
from laneway.operator.execute import job_counters
from laneway.operator.execute.events import event_of
from laneway.operator.execute.leader import Leadership
from laneway.operator.execute.manifests import worker_pod
from laneway.operator.execute.resizes import Resizes
from laneway.operator.execute.write_order import WriteOrder
from laneway.operator.execute.writer import FencedOff, Refused, Writer
from laneway.operator.logs import CYCLE
from laneway.operator.metrics import Metrics
from laneway.operator.pacing import PROFILE_RETRY_SECONDS, RETRY_WRITE_SECONDS, SERVICE_SEEN_SECONDS
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.profile_record import ProfileRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.watch.apiserver import ApiError, UnknownOutcome
from laneway.operator.watch.parallel import together
from laneway.scheduling.config.operator_config import start_slots

logger = logging.getLogger(__name__)

_LOGGED_JOBS = 100
"""The most jobs that one line of the log names of those that a job waits for."""


class Outdated(Exception):  # noqa: N818 - nothing went wrong: the next cycle knows more
    """The state from which a write was decided has changed; the text says how."""


class Executor:
    """Writes in flight, and the outcome of those that have ended."""

    def __init__(
        self,
        writer: Writer,
        metrics: Metrics,
        leadership: Leadership,
        parallel_writes: int,
        *,
        runtime_class: str = "",
        unchanged: Callable[[Iterable[WorkerPod]], Awaitable[bool]],
        refresh_job: Callable[[JobRecord], Awaitable[None]],
        refresh_node: Callable[[str], Awaitable[None]],
        ended: Callable[[bool], None],
        wall: Callable[[], float],
    ) -> None:
        """Write by ``writer``.

        Args:
            writer: sends each request.
            metrics: counts what was written.
            leadership: names this replica in events.
            parallel_writes: writes in flight at the same time.
            runtime_class: of workers whose template names none; empty: the node's default.
            unchanged: reads workers from the API server, and returns whether they are as the cache has them.
            refresh_job: brings a job and its pods up to date in the cache.
            refresh_node: the same for a node's GPUNode.
            ended: is called when a job's writes have ended; True: the job is to be reconciled soon, because it took a step or has
                changed meanwhile.
            wall: the clock, Unix time.
        """
        self._unchanged = unchanged
        self._refresh_job = refresh_job
        self._refresh_node = refresh_node
        self._write_order = WriteOrder()
        self._writer = writer
        self._metrics = metrics
        self._leadership = leadership
        self._ended = ended
        self._wall = wall
        self._runtime_class = runtime_class
        starts = start_slots(parallel_writes)
        self._starts = asyncio.Semaphore(starts)
        self._others = asyncio.Semaphore(max(1, parallel_writes - starts))
        self._tasks: set[asyncio.Task[None]] = set()
        self._served_seconds: dict[str, float] = {}
        """By namespace: when its gangs' Service was last seen."""

        self._serving: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

        self.in_flight: set[str] = set()
        """Uids of jobs with writes in flight. Where one met another version, or its outcome is unknown, the job is read again first."""

        self._unread: set[str] = set()
        """Those of them that are being read again."""

        self.nodes_in_flight: set[str] = set()
        """The same of nodes with orders, by name."""

        self._resizes = Resizes(writer, wall)
        self._busy_profiles: dict[str, float] = {}
        """By key of a TrainingProfile: until when it is left alone; infinite while it is being written."""

        self.fenced_off = False
        """Whether a write was not made because this replica does not lead."""

        self.refusals: dict[tuple[str, int], str] = {}
        """By job uid and attempt: why one of its objects was refused; until the status says that the attempt is over."""

        self.written_seconds: dict[str, float] = {}
        self.last_sign_seconds = wall()
        """When a write ended last, Unix time."""

    def fence_off(self) -> None:
        """Note that a write was not made because this replica does not lead."""
        self.fenced_off = True

    def history(self) -> WriteHistory:
        """Return what came of the writes that have ended."""
        now_seconds = self._wall()
        self._busy_profiles = {key: at for key, at in self._busy_profiles.items() if at > now_seconds}
        return WriteHistory(
            self.refusals,
            self.written_seconds,
            busy_profiles=self._busy_profiles.keys(),
            resizing=self._resizes.resting(),
            resize_bounds=self._resizes.bounds,
            resizes_unavailable=self._resizes.unavailable(),
            unread=frozenset(self._unread),
        )

    def begin(self, write: JobWrite, now_seconds: float) -> None:
        """Write all that concerns one job."""
        self.in_flight.add(write.job.uid)
        self._write_order.begin(write)
        self._go(self._execute(write, now_seconds))

    def begin_orders(self, write: NodeWrite) -> None:
        """Write a node's orders."""
        self.nodes_in_flight.add(write.node.name)
        self._go(self._order(write))

    def begin_resize(self, write: ResizeWrite) -> None:
        """Change the CPUs of a pod."""
        self._resizes.begin(write)
        self._go(self._resize(write))

    def begin_profile(self, write: ProfileWrite) -> None:
        """Write a template's profile."""
        self._begin_profile(write.key, partial(self._writer.write_profile, write))

    def begin_profile_deletion(self, profile: ProfileRecord) -> None:
        """Delete a template's profile, unless it is being written."""
        if profile.key not in self._busy_profiles:
            self._begin_profile(profile.key, partial(self._writer.delete_profile, profile))

    def _begin_profile(self, key: str, change: Callable[[], Awaitable[None]]) -> None:
        self._busy_profiles[key] = math.inf
        self._go(self._change_profile(key, change))

    async def end(self) -> None:
        """Wait until all writes have ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def finish(self, seconds: float) -> None:
        """Wait for the writes in flight, at most ``seconds``, and cancel the rest: this replica ends.

        If the response to a write is lost, its event is never recorded; the next leader finds the status as it is to be.
        """
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()
        await self.end()

    def forget(self) -> None:
        """Forget the outcomes of writes. None may be in flight."""
        self.refusals.clear()
        self._resizes.forget()
        self._busy_profiles.clear()
        self.fenced_off = False

    def forget_gone_jobs(self, uids: set[str]) -> None:
        """Forget what is known of jobs that are not among these."""
        if len(self.written_seconds) > len(uids) or self.refusals:
            self.written_seconds = {uid: when for uid, when in self.written_seconds.items() if uid in uids}
            self.refusals = {key: text for key, text in self.refusals.items() if key[0] in uids}

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

    def _go(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _execute(self, write: JobWrite, now_seconds: float) -> None:
        """Execute one job's writes. An error in one job stops no other."""
        job, soon = write.job, write.acts
        began_seconds = time.monotonic()
        try:
            soon |= await self._write(write, now_seconds)
        except Refused as error:
            logger.warning("object refused", extra={"job": job.key, "problem": str(error)})
            self.refusals[job.uid, write.status.attempt] = str(error)
        except (ApiError, UnknownOutcome) as error:
            logger.info("write failed; the job is read again", extra={"job": job.key, "problem": str(error)})
            soon = True
            await self._read_job_again(error, job)
        except Outdated as error:
            logger.info("write outdated", extra={"job": job.key, "problem": str(error)})
            if write.after.victims:
                soon = True
                await self._read_job_again(error, job)
        except FencedOff as error:
            self.fenced_off = True
            logger.info("write fenced off", extra={"job": job.key, "problem": str(error)})
        except Exception as error:
            logger.exception("objects of a job not created", extra={"job": job.key})
            text = f"the operator could not make the job's objects ({type(error).__name__}: {error}); see its log"
            self.refusals[job.uid, write.status.attempt] = text
        finally:
            self._write_order.end(write, written=False)
            self.in_flight.discard(job.uid)
            self._unread.discard(job.uid)
            self.last_sign_seconds = self._wall()
            self._metrics.job_write_duration.observe(time.monotonic() - began_seconds)
            self._ended(soon)

    async def _write(self, write: JobWrite, now_seconds: float) -> bool:
        """Write the status, then the objects; return whether the job has changed since its status was written."""
        job, changed = write.job, False
        slots = self._starts if write.creates else self._others
        await self._check_unchanged(write)
        if write.writes_status:
            async with slots:
                changed = await self._writer.write_status(job, write.status)
            if not write.after.job.placed or write.status.attempt != job.status.attempt:
                # Only of an attempt that is not over is it asked what was refused.
                self.refusals.pop((job.uid, job.status.attempt), None)
            self._write_order.end(write, written=True)
            self._note(write, now_seconds)
        if write.creates and job.desired is not None:
            await self._create(write, job.desired.spec.with_workers(len(write.status.placement)))
        await together(self.delete(pod) for pod in write.after.pods_to_delete)
        await together(self._force_delete(pod) for pod in write.after.pods_to_force_delete)
        if write.after.expired:
            async with slots:
                await self._writer.delete_job(job)
        return changed

    async def _check_unchanged(self, write: JobWrite) -> None:
        """Check on the API server what a preemption, and what a start, was decided from.

        Raises:
            Outdated: it has changed.
            ApiError, UnknownOutcome
        """
        if write.after.victims:
            async with self._others:
                unchanged = await self._unchanged(write.after.victims)
            if not unchanged:
                raise Outdated("a victim's worker has ended or is gone")
        if not await self._write_order.landed(write):
            raise Outdated("the status that preempts a victim or releases GPUs was not written")

    async def _create(self, write: JobWrite, spec: TrainingJobSpec) -> None:
        job, attempt = write.job, write.status.attempt
        if spec.workers > 1:
            await self._ensure_service(job.namespace)

        async def create(manifest: dict[str, object]) -> None:
            async with self._starts:
                await self._writer.create_pod(job, manifest)

        profile = None if write.profile is None else to_node(write.profile)
        await together(
            create(
                worker_pod(
                    job,
                    spec,
                    worker,
                    attempt,
                    profile,
                    batch=write.status.attempt_batch,
                    bound=write.binds,
                    runtime_class=self._runtime_class,
                )
            )
            for worker in write.creates
        )

    async def _ensure_service(self, namespace: str) -> None:
        """Ensure the Service of a namespace's gangs, without which workers do not find each other. No watch covers Services, so it is
        looked for while gangs start."""
        async with self._serving[namespace]:
            if self._wall() < self._served_seconds.get(namespace, -math.inf) + SERVICE_SEEN_SECONDS:
                return
            async with self._starts:
                await self._writer.ensure_gang_service(namespace)
            self._served_seconds[namespace] = self._wall()

    async def _force_delete(self, pod: WorkerPod) -> None:
        extra = {"pod": f"{pod.namespace}/{pod.name}", "node": pod.node}
        logger.warning("force-deleting a worker whose node does not answer", extra=extra)
        async with self._others:
            await self._writer.delete_pod(pod, force=True)

    async def _order(self, write: NodeWrite) -> None:
        """Write a node's orders. Where the node has changed meanwhile, the next cycle works them out again."""
        name = write.node.name
        try:
            async with self._others:
                await self._writer.write_orders(write)
            logger.info("orders written", extra={"node": name, "orders": len(write.orders)})
        except (ApiError, UnknownOutcome) as error:
            logger.info("orders not written", extra={"node": name, "problem": str(error)})
            await self._read_again(error, partial(self._refresh_node, name))
        except FencedOff:
            self.fenced_off = True
        finally:
            self.nodes_in_flight.discard(name)
            self._ended(True)

    async def _resize(self, write: ResizeWrite) -> None:
        """Change the CPUs of a pod, and tell the job's user once if that is refused."""
        try:
            async with self._others:
                reported = await self._resizes.write(write) or write.event
            if reported is not None:
                number, reporter = f"cpus-{write.pod.rank}", self._leadership.identity
                self._writer.record(
                    event_of(write.job, reported, CYCLE.get(), number, reporter, self._wall())
                )
        except FencedOff:
            self.fenced_off = True
        finally:
            self._resizes.end(write)
            self._ended(True)

    async def _change_profile(self, key: str, change: Callable[[], Awaitable[None]]) -> None:
        """Write or delete a profile. Where it has changed meanwhile, a watch shows it before the next try."""
        try:
            async with self._others:
                await change()
            del self._busy_profiles[key]
        except (ApiError, UnknownOutcome) as error:
            logger.info("profile not written", extra={"profile": key, "problem": str(error)})
            self._busy_profiles[key] = self._wall() + PROFILE_RETRY_SECONDS
        except FencedOff:
            self.fenced_off = True
            del self._busy_profiles[key]
        finally:
            self._ended(False)

    async def _read_job_again(self, error: Exception, job: JobRecord) -> None:
        self._unread.add(job.uid)
        await self._read_again(error, partial(self._refresh_job, job))

    async def _read_again(self, error: Exception, read: Callable[[], Awaitable[None]]) -> None:
        """Read what a failed write was about, until that is known. Until then it is in flight: nothing else is decided about it,
        and what it was to release is not given away."""
        waits = not isinstance(error, Outdated) and not (
            isinstance(error, ApiError) and error.status in (404, 409)
        )
        while self._leadership.leads and not self.fenced_off:
            if waits:
                await asyncio.sleep(RETRY_WRITE_SECONDS)
            waits = True
            try:
                async with self._others:
                    await read()
            except (ApiError, UnknownOutcome) as again:
                logger.info("not read again", extra={"problem": str(again)})
            else:
                return

    def _note(self, write: JobWrite, now_seconds: float) -> None:
        """Record what was written in the log, the metrics and the job's events."""
        job, waiting = write.job, write.status.waiting
        self.written_seconds[job.uid] = now_seconds
        waits_for = write.after.waits_for
        if (
            waiting is not None and visible_jobs(waits_for, job.namespace).elsewhere
        ):  # its status does not name all
            extra = {"job": job.key, "reason": waiting.reason, "others": waits_for[:_LOGGED_JOBS]}
            logger.info("waiting", extra=extra)
        for number, event in enumerate(write.after.events):
            level = logging.WARNING if event.warning else logging.INFO
            others = {"others": event.others} if event.others else {}
            logger.log(level, event.message, extra={"job": job.key, "reason": event.reason, **others})
            reporter = self._leadership.identity
            self._writer.record(event_of(job, event, CYCLE.get(), number, reporter, now_seconds))
        job_counters.count(self._metrics.namespaces, write)
