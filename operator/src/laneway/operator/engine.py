"""The loop that acts: one cycle after another, each from the whole state of the cluster.

A cycle looks at the cache, decides (:mod:`laneway.operator.deciding`) and has the statements carried out
(:mod:`laneway.operator.carrying_out`). It does not wait for the writes: no two cycles act on the same job, because a job that is being
written about is left alone until that has ended. Only the leader's engine runs.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from laneway.operator.apiserver import ApiError, ApiServer, UnknownOutcome
from laneway.operator.cache import ClusterCache, ClusterView
from laneway.operator.carrying_out import CarryingOut
from laneway.operator.collector import FullCollections, paused_collector
from laneway.operator.config import OperatorConfig
from laneway.operator.deciding import Decider, Decision
from laneway.operator.leader import Leadership
from laneway.operator.logs import CYCLE
from laneway.operator.metrics import Figures, Metrics
from laneway.operator.relist import ListedThePast, refresh_gpu_node, refresh_job, relist, unchanged
from laneway.operator.resources import TRAINING_JOBS, Resource
from laneway.operator.template_trials import TemplateTrials
from laneway.operator.tidying import Tidying
from laneway.operator.writer import FencedOff, Writer

logger = logging.getLogger(__name__)

_LATER_SECONDS = 5.0
"""After so long jobs are looked at again of which only figures were written: nothing happens to them, and with thousands of running jobs
some figure is written at any time."""

_RETRY_SECONDS = 1.0
"""Wait after a cycle that the API server did not answer."""

_LONGEST_LAG_SECONDS = 30.0
"""An API server that shows an old state catches up within seconds. Where it never does, leases have an etcd of their own, and with it
versions that say nothing about others."""

_REST_PER_DECISION = 3.0
"""While changes keep coming, so many times as long as the last decision took goes to taking them in and to writing."""

_LONGEST_DEBOUNCE_SECONDS = 1.0

_REST_PER_IDLE_DECISION = 50.0
_LONGEST_IDLE_REST_SECONDS = 5.0
"""Where nothing changes, so many times what the last decision took of the processor passes before the next, and no more than that. What is
merely due can wait for others that soon are: of thousands of running jobs one crosses a threshold of attained service at any time."""

_LAST_WRITES_SECONDS = 3.0
"""For what is under way when this replica is to end: well within the grace period of a pod, and of a lease that is not renewed any more."""


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
        self._decider = Decider(config.scheduling.policies(), config)
        self._api = api
        self._cache = cache
        self._metrics = metrics
        self._leadership = leadership
        self._wall = wall
        self._changed = asyncio.Event()
        self._carrying = CarryingOut(
            writer,
            metrics,
            leadership,
            config.cycle.parallel_writes,
            unchanged=partial(unchanged, api, cache),
            ended=self._writes_ended,
            wall=wall,
        )
        self._tidying = Tidying(api, self._carrying, config.patience.orphan_seconds)
        self._trials = TemplateTrials(writer, config.patience.refusal_backoff_seconds)
        self._collections = FullCollections(time.monotonic)
        self._cycles = 0
        self._decided_in_seconds = self._decision_cpu_seconds = 0.0
        self._due_seconds = 0.0
        self._wakes_later: asyncio.TimerHandle | None = None
        self._listed_seconds: float | None = None
        self._asked_seconds: float | None = None
        self._last_sign_seconds = wall()

    @property
    def synced(self) -> bool:
        """Whether the cache has been filled since this replica began to lead."""
        return self._listed_seconds is not None

    @property
    def last_sign_seconds(self) -> float:
        """When the engine last showed that it is alive."""
        return max(self._last_sign_seconds, self._carrying.last_sign_seconds)

    def wake(self) -> None:
        """Have a cycle run soon."""
        self._changed.set()

    def heard_of(self, resource: Resource, uid: str) -> None:
        """Have a cycle run soon because an object has changed, unless it is a job that is being written about: mostly the change is that
        very write, and whoever carries it out says whether it is not."""
        if resource is not TRAINING_JOBS or uid not in self._carrying.busy:
            self.wake()

    @property
    def writes_under_way(self) -> int:
        """Of how many jobs something is being written."""
        return len(self._carrying.busy)

    def _writes_ended(self, soon: bool) -> None:
        """Look at a job again that was left alone: soon after a step in its life, else some time after, with others."""
        if soon:
            self.wake()
        elif self._wakes_later is None:
            self._wakes_later = asyncio.get_running_loop().call_later(_LATER_SECONDS, self._wake_now)

    def _wake_now(self) -> None:
        self._wakes_later = None
        self.wake()

    async def run(self) -> None:
        """Run cycles for ever, whenever something changed or is due."""
        try:
            while True:
                await self._rest()
                self._last_sign_seconds = self._wall()
                if self._leadership.leads and not self._carrying.fenced_off:
                    await self._lead()
                else:
                    await self._stand_by()
        finally:
            await self._carrying.finish(_LAST_WRITES_SECONDS)

    async def cycle(self) -> Decision:
        """Decide once, and begin to carry it out.

        Raises:
            ApiError, FencedOff, UnknownOutcome: while workers without a job were looked at.
        """
        began_seconds, began_cpu_seconds = time.monotonic(), time.thread_time()
        now_seconds = self._wall()
        carrying = self._carrying
        view = self._cache.freeze(self._config.patience.silent_node_seconds)
        memory = replace(carrying.memory(), template_refusals=self._trials.refusals)
        with paused_collector():
            decision = self._decider.decide(view, memory, now_seconds, carrying.busy)
        if decision.problem:
            logger.error("no plan was made", extra={"problem": decision.problem})
        self._due_seconds = decision.due_seconds
        for statement in decision.statements:
            carrying.begin(statement, now_seconds)
        for order in decision.orders:
            if order.node.name not in carrying.ordering:
                carrying.begin_orders(order)
        self._decided_in_seconds = time.monotonic() - began_seconds
        self._decision_cpu_seconds = time.thread_time() - began_cpu_seconds
        self._metrics.show(lambda: self._decider.figures(self._wall()))
        self._metrics.cycle_duration.observe(self._decided_in_seconds)
        await self._tidy_up(view, now_seconds)
        if await self._trials.ask(decision.plan.waiting, view.jobs, now_seconds):
            self.wake()
        took = {
            "seconds": round(self._decided_in_seconds, 4),
            "cpu_seconds": round(self._decision_cpu_seconds, 4),
        }
        logger.debug("cycle", extra={"statements": len(decision.statements), **took})
        return decision

    async def _lead(self) -> None:
        self._cycles += 1
        token = CYCLE.set(f"{self._leadership.identity[-8:]}-{self._cycles}")
        try:
            listed = await self._catch_up()
            await self.cycle()
            if listed:
                await self._tidying.tidy_services(self._cache.jobs.records(), self._wall())
        except FencedOff as error:
            logger.warning("the cycle ends early", extra={"problem": str(error)})
            await self._stand_by()
        except (ApiError, UnknownOutcome, ListedThePast) as error:
            logger.warning("the API server does not answer as it should", extra={"problem": str(error)})
            self._due_seconds = self._wall() + _RETRY_SECONDS
        finally:
            CYCLE.reset(token)

    async def _rest(self) -> None:
        leads = self._leadership.leads and not self._carrying.fenced_off
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
        busy_seconds = min(_REST_PER_DECISION * self._decided_in_seconds, _LONGEST_DEBOUNCE_SECONDS)
        await asyncio.sleep(max(self._config.cycle.debounce_milliseconds / 1000, busy_seconds))
        self._changed.clear()

    async def _stand_by(self) -> None:
        """Forget everything. Whoever leads from now on must not meet writes that were decided before."""
        await self._carrying.end()
        self._carrying.forget()
        self._decider.forget()
        self._trials.forget()
        self._listed_seconds = self._asked_seconds = None
        self._metrics.show(Figures)

    async def _catch_up(self) -> bool:
        """Read anew what the cache may not know; return whether that was everything."""
        now_seconds, listed_seconds = self._wall(), self._listed_seconds
        due = listed_seconds is None or now_seconds - listed_seconds >= self._config.cycle.relist_seconds
        if due:
            await self._list_all()
            self._listed_seconds = now_seconds
        while self._carrying.doubtful:
            uid, job = next(iter(self._carrying.doubtful.items()))
            await refresh_job(self._api, self._cache, job)
            del self._carrying.doubtful[uid]
        while self._carrying.doubtful_nodes:
            name = next(iter(self._carrying.doubtful_nodes))
            await refresh_gpu_node(self._api, self._cache, name)
            self._carrying.doubtful_nodes.discard(name)
        return due

    async def _list_all(self) -> None:
        """What the leader before this one wrote must be seen: else GPUs that it gave away would be given away again."""
        asked_seconds = time.monotonic()
        if self._asked_seconds is None:
            self._asked_seconds = asked_seconds
        lag_seconds = asked_seconds - self._asked_seconds
        not_before = self._leadership.term_version if lag_seconds < _LONGEST_LAG_SECONDS else 0
        await relist(self._api, self._cache, not_before)

    async def _tidy_up(self, view: ClusterView, now_seconds: float) -> None:
        if not await self._tidying.tidy_workers(view, now_seconds):
            self._listed_seconds = None  # the cache has missed a job: list anew before anything else
        uids = {job.uid for job in view.jobs}
        self._carrying.forget_gone_jobs(uids)
        self._trials.forget_gone_jobs(uids)


def idle_seconds(due_in_seconds: float, decision_cpu_seconds: float) -> float:
    """Return how long the engine waits where nothing changes.

    Args:
        due_in_seconds: until something is due; what is overdue must not turn the loop into a busy one.
        decision_cpu_seconds: what the last decision took of the processor.
    """
    rest_seconds = min(_REST_PER_IDLE_DECISION * decision_cpu_seconds, _LONGEST_IDLE_REST_SECONDS)
    return max(due_in_seconds, rest_seconds, 0.05)
