"""One cycle's decision, pure: from what the cluster says to what is to be written, job by job.

    view ─▶ docket (where each job stands) ─▶ picture (what the planner is told) ─▶ plan (laneway.scheduling) ─▶ statements

A decider keeps its docket and its picture from cycle to cycle, so that a decision costs what has changed, and a look at each job. What
it decides is what one would that sees everything for the first time: its memory makes it fast and changes nothing.

A statement is the difference between what a job has and what it is to have. A job that is being written about is *busy*: it counts as what
it is to be, and nothing else is decided about it until the writes have ended, whatever came of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from laneway.operator import accounting
from laneway.operator.advising import Adviser
from laneway.operator.cache import ClusterView
from laneway.operator.config import OperatorConfig
from laneway.operator.docket import Docket, Dossier, News
from laneway.operator.job_figures import figures_of
from laneway.operator.memory import Memory
from laneway.operator.metrics import Figures
from laneway.operator.node_orders import NodeStatement, order_statements
from laneway.operator.picture import Picture
from laneway.operator.plan_steps import says, with_plan
from laneway.operator.standing import Standing
from laneway.operator.statements import JobStatement, draft
from laneway.operator.write_budget import WriteBudget
from laneway.scheduling import InvalidPlan, JobState, Plan, Policies, WaitingCode, WaitingReason

logger = logging.getLogger(__name__)

_NOBODY: Collection[str] = frozenset()
ADMITTED = "Admitted"
_AGAIN_SECONDS = 1.0
"""After so long, statuses are looked at again that were put off."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a cycle is to do."""

    statements: tuple[JobStatement, ...]
    """Those that are not empty."""

    due_seconds: float
    """When the next cycle is due though nothing changes."""

    plan: Plan
    figures_now: Callable[[], Figures]
    orders: tuple[NodeStatement, ...] = ()
    """Nodes whose orders are to be others."""

    problem: str = ""
    """Why there is no plan, as a sentence; what happened to jobs is written all the same. Empty where there is one."""

    @property
    def figures(self) -> Figures:
        """Where the jobs stand."""
        return self.figures_now()


@dataclass(slots=True)
class _Round:
    """What comes of one plan."""

    planned: Plan
    resumes: frozenset[str]
    promotions: frozenset[str]
    statements: list[tuple[JobStatement, Standing]] = field(default_factory=list)
    put_off: list[tuple[float, str]] = field(default_factory=list)
    """When their statuses were written last, and the uids of jobs that may be written about within the allowance."""

    served: list[tuple[float, str]] = field(default_factory=list)
    """The same of jobs of which nothing is new but that they have had more service."""

    due_seconds: list[float] = field(default_factory=list)
    parked: list[Standing] = field(default_factory=list)
    """Jobs that stand aside, or are to."""


class Decider:
    """Decides, and remembers what it has seen."""

    def __init__(self, policies: Policies, config: OperatorConfig) -> None:
        self._policies = policies
        self._config = config
        self.forget()

    def forget(self) -> None:
        """Forget everything: the next decision is made as if the cluster were seen for the first time."""
        config = self._config
        self._docket = Docket(config.patience)
        self._picture = Picture(self._policies, config.lane_rules(), config.scheduling.active_percent)
        self._budget = WriteBudget(config.cycle)
        self._adviser = Adviser(config.cycle)
        self._unsaid: set[str] = set()
        """Jobs whose statuses are to be written as soon as the allowance permits, whatever is new about them."""

    def decide(
        self,
        view: ClusterView,
        memory: Memory,
        now_seconds: float,
        busy: Collection[str] = _NOBODY,
    ) -> Decision:
        """Return what is to be written now.

        Args:
            view: what the cluster says.
            memory: what the engine remembers.
            now_seconds: Unix time.
            busy: uids of jobs that are being written about.
        """
        docket, picture = self._docket, self._picture
        news = docket.update(view, memory.refusals, memory.template_refusals, busy, now_seconds)
        picture.update(view, docket, news, now_seconds)
        starting = sum(docket.of[uid].standing.state is JobState.STARTING for uid in busy if uid in docket.of)
        planned, problem = self._plan(starting, now_seconds)
        self._adviser.update(picture.scheduler, planned, now_seconds)
        this = _Round(planned, frozenset(planned.resumes), frozenset(planned.promotions))
        self._unsaid &= docket.of.keys()
        for uid, dossier in docket.of.items():
            if uid not in busy:
                self._consider(this, uid, dossier, news, memory, now_seconds)
            else:
                this.parked.append(dossier.standing)
        self._say_some(this, starting, now_seconds)
        for statement, standing in this.statements:
            docket.assume(statement.job.uid, standing)
            picture.assume(standing, view, now_seconds)
        decision = Decision(
            statements=tuple(statement for statement, _ in this.statements),
            due_seconds=self._due_seconds(this, starting, now_seconds),
            plan=planned,
            figures_now=lambda: figures_of((each.standing for each in docket.of.values()), now_seconds),
            orders=self._orders(this, view, busy),
            problem=problem,
        )
        if problem:
            self.forget()
        return decision

    @property
    def drifts(self) -> int:
        """How often something was remembered wrongly since all was forgotten last: see :class:`Docket`."""
        return self._docket.drifts

    def figures(self, now_seconds: float) -> Figures:
        """Return where the jobs stand by the last decision."""
        return figures_of((each.standing for each in self._docket.of.values()), now_seconds)

    def _plan(self, starting: int, now_seconds: float) -> tuple[Plan, str]:
        """Plan no more starts than can be written soon: a gang's time to start begins with its placement."""
        most_starts = max(0, self._config.cycle.starts_per_cycle - starting)
        try:
            return self._picture.scheduler.plan(now_seconds, most_starts), ""
        except InvalidPlan as error:
            return Plan(), str(error)

    def _consider(
        self, this: _Round, uid: str, dossier: Dossier, news: News, memory: Memory, now_seconds: float
    ) -> None:
        """Settle what is to be written about a job, if anything."""
        job, standing = dossier.job, dossier.standing
        assert job is not None, "a job that is not busy was judged in this cycle at the latest"
        written_seconds = memory.written_seconds.get(uid, 0.0)
        reason = this.planned.waiting.get(standing.job.key)
        if uid in news.jobs or _takes_a_step(standing, this, reason):
            self._unsaid.discard(uid)
            standing = self._with_plan(this, dossier, now_seconds)
            statement = draft(job, standing, self._picture.templates.of(job))
            if not statement.empty and not _merely_explains(statement, standing):
                this.statements.append((_counted(statement, now_seconds), standing))
                return
            if not statement.empty:
                self._unsaid.add(uid)
        elif (
            standing.state is JobState.WAITING
            and reason is not None
            and reason.code is not WaitingCode.NOT_CONSIDERED
            and _has_another_reason(standing, reason)
        ):
            self._unsaid.add(uid)
        if uid in self._unsaid:
            if reason is None or reason.code is not WaitingCode.NOT_CONSIDERED:
                this.put_off.append((written_seconds, uid))
            return
        if standing.job.status.preemption is not None:
            this.parked.append(standing)
        if not job.deleting:
            self._refresh(this, uid, dossier, standing, written_seconds, now_seconds)

    def _with_plan(self, this: _Round, dossier: Dossier, now_seconds: float) -> Standing:
        refused = self._picture.refused(dossier.standing.job.key)
        return with_plan(
            dossier.standing, this.planned, dossier.pods, now_seconds, self._adviser.told, refused
        )

    def _refresh(
        self,
        this: _Round,
        uid: str,
        dossier: Dossier,
        standing: Standing,
        written_seconds: float,
        now_seconds: float,
    ) -> None:
        """Settle whether figures and sentences are to be written that are no step in the job's life."""
        job, status = dossier.job, standing.job.status
        assert job is not None
        same = status is job.status or status == job.status
        reason = this.planned.waiting.get(job.key)
        told = reason is None or (
            says(status, reason, self._picture.refused(job.key))
            and not self._adviser.is_news(job.key, status.waiting)
        )
        if reason is not None and not told and reason.code is not WaitingCode.NOT_CONSIDERED:
            due_seconds: float | None = written_seconds + self._config.cycle.explain_seconds
        else:
            due_seconds = self._budget.due_seconds(status, written_seconds, same=same)
        if due_seconds is None:
            return
        if due_seconds <= now_seconds:
            (this.served if told and same else this.put_off).append((written_seconds, uid))
        elif not (told and same):
            # Service is no reason for a cycle: there is one every few seconds.
            this.due_seconds.append(max(due_seconds, now_seconds + _AGAIN_SECONDS))

    def _say_some(self, this: _Round, starting: int, now_seconds: float) -> None:
        """Of the statuses that can wait, write those first that were written longest ago."""
        number = self._budget.sentences(len(this.put_off), starting, now_seconds)
        if number < len(this.put_off):
            this.due_seconds.append(now_seconds + _AGAIN_SECONDS)
        of_service = self._budget.service(len(this.served), starting, now_seconds)
        for _, uid in (*sorted(this.put_off)[:number], *sorted(this.served)[:of_service]):
            dossier = self._docket.of[uid]
            assert dossier.job is not None
            standing = self._with_plan(this, dossier, now_seconds)
            statement = draft(dossier.job, standing, self._picture.templates.of(dossier.job))
            this.statements.append((_counted(replace(statement, write=True), now_seconds), standing))
            self._unsaid.discard(uid)

    def _orders(self, this: _Round, view: ClusterView, busy: Collection[str]) -> tuple[NodeStatement, ...]:
        """Return what nodes are to be ordered now; why they are has been written before."""
        parked = [*this.parked, *(standing for _, standing in this.statements)]
        unwritten = {statement.job.uid for statement, _ in this.statements}.union(busy)
        return tuple(each for each in order_statements(view, parked) if not each.jobs & unwritten)

    def _due_seconds(self, this: _Round, starting: int, now_seconds: float) -> float:
        if this.planned.cut_short:
            # Each write that ends wakes the engine as well.
            return now_seconds + _AGAIN_SECONDS if starting else now_seconds
        due = [
            now_seconds + self._config.cycle.resync_seconds,
            self._docket.due_seconds(),
            self._picture.due_seconds(),
            *this.due_seconds,
        ]
        planned_seconds = self._picture.scheduler.next_decision_seconds(now_seconds)
        return min(due if planned_seconds is None else [planned_seconds, *due])


def decide(
    view: ClusterView, memory: Memory, policies: Policies, config: OperatorConfig, now_seconds: float
) -> Decision:
    """Return what is to be written now, by one who sees the cluster for the first time."""
    return Decider(policies, config).decide(view, memory, now_seconds)


def _takes_a_step(standing: Standing, this: _Round, reason: WaitingReason | None) -> bool:
    """Whether the plan has the job take a step, or tells something of it that is written as soon as a step."""
    planned, key, status = this.planned, standing.job.key, standing.job.status
    if standing.state is None:
        return False
    if key in planned.starts or key in planned.preemptions or key in this.resumes:
        return True
    if standing.state is not JobState.WAITING and status.queue != planned.queues.get(key, status.queue):
        return not standing.job.finished
    if key in this.promotions and status.service_at_promotion != status.attained_service:
        return True
    if reason is None or not _has_another_reason(standing, reason):
        return False
    return reason.code is WaitingCode.AWAITING_PREEMPTION or standing.state is not JobState.WAITING


def _has_another_reason(standing: Standing, reason: WaitingReason | None) -> bool:
    """Whether a job waits for another reason than its status says."""
    waiting = standing.job.status.waiting
    return reason is not None and (waiting is None or waiting.reason != str(reason.code))


def _merely_explains(statement: JobStatement, standing: Standing) -> bool:
    """Whether nothing happens but that a job which waits is told why."""
    acts = statement.creates or statement.doomed or statement.forsaken or statement.expired
    return (
        standing.state is JobState.WAITING
        and not acts
        and not statement.job.placed
        and all(each.reason == ADMITTED for each in statement.happenings)
    )


def _counted(statement: JobStatement, now_seconds: float) -> JobStatement:
    """Have a status that is written say what service there was up to now."""
    if not statement.write:
        return statement
    return replace(statement, status=accounting.counted(statement.status, now_seconds))
