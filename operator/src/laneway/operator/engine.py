"""The loop that acts: one cycle after another, each from the whole state of the cluster.

A cycle looks at the cache, decides (:mod:`laneway.operator.cycle.cycle`) and has the writes executed (:mod:`laneway.operator.execute.executor`).
It waits neither for them nor for lists and other reads (:mod:`laneway.operator.upkeep`): no two cycles act on the same job, because a
job with writes in flight is left alone until these have ended, and it was read again where one failed. Only the leader's engine
runs cycles.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from laneway.operator.collector import FullCollections, paused_collector
from laneway.operator.cycle.cycle import Cycle, CycleResult
from laneway.operator.cycle.job_figures import no_gauges
from laneway.operator.cycle.node_figures import node_gauges
from laneway.operator.execute.executor import Executor
from laneway.operator.execute.garbage_collector import GarbageCollector
from laneway.operator.execute.leader import Leadership
from laneway.operator.execute.template_trials import TemplateTrials
from laneway.operator.execute.writer import Writer
from laneway.operator.logs import CYCLE
from laneway.operator.metrics import Metrics
from laneway.operator.pacing import (
    FIGURES_WRITTEN_SECONDS,
    LAST_WRITES_SECONDS,
    LONGEST_LAG_SECONDS,
    MISSED_DELETIONS_SECONDS,
    RETRY_CYCLE_SECONDS,
    debounce_seconds,
    idle_seconds,
)
from laneway.operator.state.cache import ClusterCache
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.resources import TRAINING_JOBS, Resource
from laneway.operator.upkeep import Upkeep
from laneway.operator.watch.apiserver import ApiError, ApiServer, UnknownOutcome
from laneway.operator.watch.relist import ListedThePast, refresh_gpu_node, refresh_job, relist, unchanged
from laneway.operator.watch.waiting_pods import WaitingPods
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.scheduling.model.plan import PolicyFailure

logger = logging.getLogger(__name__)


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
        self._cycle = Cycle(config)
        self._api = api
        self._cache = cache
        self._metrics = metrics
        self._leadership = leadership
        self._wall = wall
        self._changed = asyncio.Event()
        self._executor = Executor(
            writer,
            metrics,
            leadership,
            config.cycle.parallel_writes,
            runtime_class=config.worker_runtime_class,
            unchanged=partial(unchanged, api, cache),
            refresh_job=partial(refresh_job, api, cache),
            refresh_node=partial(refresh_gpu_node, api, cache),
            ended=self._writes_ended,
            wall=wall,
        )
        self._garbage_collector = GarbageCollector(api, self._executor, config.timeouts.orphan_seconds)
        self._trials = TemplateTrials(
            writer, config.timeouts.refusal_backoff_seconds, config.worker_runtime_class
        )
        self._waiting_pods = WaitingPods(api, wall)
        self._upkeep = Upkeep(self.wake, self._executor.fence_off)
        self._collections = FullCollections(time.monotonic)
        self._failed: dict[str, PolicyFailure] = {}
        """By stage: the failure that was logged last."""

        self._cycles = 0
        self._decided_in_seconds = self._decision_cpu_seconds = 0.0
        self._due_seconds = 0.0
        self._wakes_later: asyncio.TimerHandle | None = None
        self._listed_seconds: float | None = None
        self._watched_since_seconds = math.inf
        self._list_again = self._tidies = self._missed_deletions = False
        self._lists_later: asyncio.TimerHandle | None = None
        self._asked_seconds: float | None = None
        self._last_sign_seconds = wall()

    @property
    def synced(self) -> bool:
        """Whether the cache has been filled since this replica began to lead."""
        return self._listed_seconds is not None

    @property
    def last_sign_seconds(self) -> float:
        """When the engine last showed that it is alive."""
        return max(self._last_sign_seconds, self._executor.last_sign_seconds)

    def wake(self) -> None:
        """Have a cycle run soon."""
        self._changed.set()

    def heard_of(self, resource: Resource, uid: str) -> None:
        """Have a cycle run soon because an object has changed.

        A job with writes in flight is left out: mostly the change is that write, and the executor reports any other.
        """
        if resource is not TRAINING_JOBS or uid not in self._executor.in_flight:
            self.wake()

    def list_soon(self) -> None:
        """Have everything listed again, because a watch may have missed deletions; soon after a list, a little later."""
        if self._listed_seconds is None:
            self._missed_deletions = True  # the first list leaves out jobs that have ended
            return
        if self._lists_later is not None:
            return
        wait_seconds = self._listed_seconds + MISSED_DELETIONS_SECONDS - self._wall()
        if wait_seconds <= 0:
            self._list_now()
        else:
            self._lists_later = asyncio.get_running_loop().call_later(wait_seconds, self._list_now)

    def _list_now(self) -> None:
        self._lists_later = None
        self._list_again = True
        self.wake()

    @property
    def writes_under_way(self) -> int:
        """How many jobs have writes in flight."""
        return len(self._executor.in_flight)

    def _writes_ended(self, soon: bool) -> None:
        """Run a cycle after writes have ended: soon after a step in a job's life, else later, for several jobs together."""
        if soon:
            self.wake()
        elif self._wakes_later is None:
            self._wakes_later = asyncio.get_running_loop().call_later(FIGURES_WRITTEN_SECONDS, self._wake_now)

    def _wake_now(self) -> None:
        self._wakes_later = None
        self.wake()

    async def run(self) -> None:
        """Run cycles forever, whenever something changed or is due."""
        try:
            while True:
                await self._rest()
                self._upkeep.check()
                self._last_sign_seconds = self._wall()
                if self._leadership.leads and not self._executor.fenced_off:
                    await self._lead()
                else:
                    await self._stand_by()
        finally:
            await self._upkeep.end()
            await self._executor.finish(LAST_WRITES_SECONDS)

    def _cycle_now(self) -> None:
        """Decide once, and begin to execute it."""
        began_seconds, began_cpu_seconds = time.monotonic(), time.thread_time()
        now_seconds = self._wall()
        executor = self._executor
        state = self._cache.state(self._config.timeouts.silent_node_seconds)
        history = replace(
            executor.history(),
            template_refusals=self._trials.refusals,
            watched_since_seconds=self._watched_since_seconds,
            waiting_pods=self._waiting_pods.pods,
        )
        with paused_collector():
            result = self._cycle.run(state, history, now_seconds, executor.in_flight)
        if result.problem:
            logger.error("no decision", extra={"problem": result.problem})
        self._note_failures(result.policy_failures)
        self._due_seconds = result.due_seconds
        for write in result.writes:
            executor.begin(write, now_seconds)
        for order in result.orders:
            if order.node.name not in executor.nodes_in_flight:
                executor.begin_orders(order)
        for resize in result.resizes:
            executor.begin_resize(resize)
        for profile in result.profiles:
            executor.begin_profile(profile)
        for surplus in result.surplus_profiles:
            executor.begin_profile_deletion(surplus)
        self._decided_in_seconds = time.monotonic() - began_seconds
        self._decision_cpu_seconds = time.thread_time() - began_cpu_seconds
        self._metrics.show(lambda: (*self._cycle.gauges(self._wall()), *node_gauges(state)))
        self._metrics.cycle_duration.observe(self._decided_in_seconds)
        self._begin_upkeep(state, result)
        if self._tidies:
            self._tidy(state)
        took = {
            "seconds": round(self._decided_in_seconds, 4),
            "cpu_seconds": round(self._decision_cpu_seconds, 4),
        }
        logger.debug("cycle", extra={"writes": len(result.writes), **took})

    def _note_failures(self, failures: Iterable[PolicyFailure]) -> None:
        """Count the failures of policies, and log each once, as long as it is the same."""
        for each in failures:
            self._metrics.policy_failures.labels(stage=each.stage).inc()
            if self._failed.get(each.stage) != each:
                self._failed[each.stage] = each
                extra = {"stage": each.stage, "policy": each.policy, "problem": each.message}
                logger.error("a policy failed; only its stage does without a decision", extra=extra)

    def _begin_upkeep(self, state: ClusterState, result: CycleResult) -> None:
        now_seconds = self._wall()
        if self._list_is_due():
            self._upkeep.begin("list", self._list_all)
        # A list may show the job of a worker that seems to have none; but one that fails may do so for ever.
        if not self._upkeep.under_way("list") or self._upkeep.fails("list"):
            self._upkeep.begin("workers", partial(self._collect_workers, state, now_seconds))
        ask = partial(self._trials.ask, state, result.waiting, self._cycle.refused, now_seconds)
        self._upkeep.begin("templates", ask)
        if self._cycle.lends_cpus and self._waiting_pods.is_due():
            self._upkeep.begin("waiting pods", self._waiting_pods.look)

    async def _collect_workers(self, state: ClusterState, now_seconds: float) -> bool:
        knows_all_jobs = await self._garbage_collector.collect_workers(state, now_seconds)
        if not knows_all_jobs:
            self._list_again = True
        return not knows_all_jobs

    async def _lead(self) -> None:
        self._cycles += 1
        token = CYCLE.set(f"{self._leadership.identity[-8:]}-{self._cycles}")
        try:
            if not self.synced:
                await self._list_all()
                self._forget_changes()  # the first cycle looks at everything in any case
                self._watched_since_seconds = self._wall()
                if self._missed_deletions:
                    self._missed_deletions = False
                    self.list_soon()
            self._cycle_now()
        except (ApiError, UnknownOutcome, ListedThePast) as error:
            logger.warning("the cluster could not be listed", extra={"problem": str(error)})
            self._due_seconds = self._wall() + RETRY_CYCLE_SECONDS
        finally:
            CYCLE.reset(token)

    async def _rest(self) -> None:
        leads = self._leadership.leads and not self._executor.fenced_off
        wait_seconds = float(self._config.cycle.resync_seconds)
        if leads:
            due_in_seconds = self._due_seconds - self._wall()
            wait_seconds = min(wait_seconds, idle_seconds(due_in_seconds, self._decision_cpu_seconds))
        try:
            # No wait_for: it swallows a cancellation that comes at the same moment as what it waits for.
            async with asyncio.timeout(wait_seconds):
                await self._changed.wait()
        except TimeoutError:
            self._collections.rest(idle=True)
            return
        self._collections.rest(idle=False)
        milliseconds = self._config.cycle.debounce_milliseconds
        await asyncio.sleep(debounce_seconds(milliseconds, self._decided_in_seconds))
        self._changed.clear()

    async def _stand_by(self) -> None:
        """Wait for the writes in flight, and forget everything: the next leader must not meet writes that were decided before."""
        await self._upkeep.end()
        await self._executor.end()
        self._executor.forget()
        self._cycle.forget()
        self._forget_changes()  # else they become more and more while another leads
        self._trials.forget()
        self._waiting_pods.forget()
        self._listed_seconds = self._asked_seconds = None
        self._watched_since_seconds = math.inf
        self._metrics.show(no_gauges)

    def _list_is_due(self) -> bool:
        since_seconds = self._wall() - (self._listed_seconds or 0.0)
        return self._list_again or since_seconds >= self._config.cycle.relist_seconds

    def _forget_changes(self) -> None:
        self._cache.state(self._config.timeouts.silent_node_seconds).take_delta()

    async def _list_all(self) -> bool:
        """List everything, no older than this leader's term: else GPUs that the leader before gave away would be given away again.
        Return True."""
        now_seconds, asked_seconds = self._wall(), time.monotonic()
        self._list_again = False
        if self._asked_seconds is None:
            self._asked_seconds = asked_seconds
        lag_seconds = asked_seconds - self._asked_seconds
        not_before = self._leadership.term_version if lag_seconds < LONGEST_LAG_SECONDS else 0
        try:
            # Decisions need no jobs that have ended: kopf's first list brings them.
            await relist(self._api, self._cache, not_before, ended_jobs=self.synced)
        except BaseException:
            self._list_again = True
            raise
        self._listed_seconds, self._tidies = now_seconds, True
        return True

    def _tidy(self, state: ClusterState) -> None:
        """Do the work that costs time for every job: after the first cycle that follows a list."""
        self._tidies = False
        self._cache.condense_ended_jobs()
        uids = set(state.jobs)
        self._executor.forget_gone_jobs(uids)
        self._metrics.namespaces.end_unused({job.namespace for job in state.jobs.values()}, self._wall())
        self._trials.keep_only((job.uid, job.generation) for job in state.jobs.values() if not job.finished)
        for profile in self._cycle.unused_profiles(state, self._wall()):
            self._executor.begin_profile_deletion(profile)
