"""The scheduler: the entry point for the operator and the simulator.

Callers report changes, and a decision costs only as much as they do. It is the same decision that a new scheduler would make
from the full state: the kept state saves time and changes no decision. The exceptions are what it measures or begins over time: idle GPUs that the
decision before left (fair share), services of ended jobs, rounds of GPU models, speeds of jobs that shared GPUs, and when the elastic
policy was last asked. operator/README.md lists what a restart loses by that.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import cast

from laneway.scheduling.actions.allotments import allotments
from laneway.scheduling.actions.model_rounds import ModelRounds
from laneway.scheduling.actions.rescale import rescale_due_seconds
from laneway.scheduling.actions.worker_counts import WorkerCounts
from laneway.scheduling.config.stages import Policies
from laneway.scheduling.cycle import not_admitted, run_cycle
from laneway.scheduling.explain.start_estimates import StartEstimate, start_estimates
from laneway.scheduling.explain.suggestions import suggestions
from laneway.scheduling.explain.waiting import waiting_order, waiting_reasons
from laneway.scheduling.framework.session import MAX_PREEMPTORS, Session
from laneway.scheduling.framework.unschedulable_cache import UnschedulableCache
from laneway.scheduling.gpus.views import IDLE
from laneway.scheduling.model.past_services import NO_SERVICES, PastServices, is_news
from laneway.scheduling.model.plan import Decision, Plan, PolicyFailure, WaitingReason, WorkerAllotment
from laneway.scheduling.model.snapshot import GPU, Job, JobState, Node
from laneway.scheduling.order.policy import AssignsModels, LearnsServices, OrderPolicy
from laneway.scheduling.state.measured_speeds import SharedSpeed
from laneway.scheduling.state.scheduler_state import SchedulerState
from laneway.scheduling.validation import Holdings, check_decision


class Scheduler:
    """Decides which job runs when, on which GPUs. Report changes, ask for a decision, then report its result."""

    def __init__(self, nodes: Sequence[Node], policies: Policies) -> None:
        self._state = SchedulerState(nodes, policies)
        self._cache = UnschedulableCache(self._state)
        self._holdings = Holdings(nodes)
        self._decided_seconds = -math.inf
        self._past = NO_SERVICES
        self._worker_counts = None if policies.elastic is None else WorkerCounts(policies.elastic)
        order = policies.order
        self._rounds = ModelRounds(order) if isinstance(order, AssignsModels) else None

    def set_nodes(self, nodes: Sequence[Node]) -> None:
        """Replace the cluster's nodes."""
        if self._state.set_nodes(nodes):
            self._cache = UnschedulableCache(self._state)
            self._holdings.set_nodes(nodes)

    def observe(self, job: Job) -> None:
        """Add a job, or replace what is known of it."""
        self._state.observe(job)
        self._holdings.observe(job)

    def forget(self, key: str) -> None:
        """Remove a job that has ended and holds nothing any more.

        Raises:
            KeyError: there is no such job.
        """
        self._state.forget(key)
        self._holdings.forget(key)

    def avoid(self, key: str, nodes: frozenset[str]) -> None:
        """Keep a job away from these nodes from now on."""
        self._state.avoid(key, nodes)
        self._holdings.avoid(key, nodes)

    def report_speed(self, key: str, ratio: float, sharers: frozenset[str]) -> bool:
        """Tell the measured speed of a running job that shares its GPUs; return whether it may change the last decision.

        Args:
            key: the job.
            ratio: its speed; 1 is its speed alone. Above 0.
            sharers: the other jobs that ran on any of its GPUs all the time. If others do now, the speed does not count.
        """
        state = self._state
        return state.measured.report(key, SharedSpeed(ratio, sharers), state.speeds, state.allocations)

    @property
    def learns_services(self) -> bool:
        """Whether the order policy reads the services of jobs that have ended."""
        order = self._state.policies.order
        return isinstance(order, LearnsServices) and order.learns

    def learn_services(self, past: PastServices, now_seconds: float) -> bool:
        """Tell the services of all jobs that have ended; return whether the order may change by that.

        All jobs are ranked again, so that happens only when enough jobs have ended since the last time. The jobs that have not ended count
        as stopped: those that ended early are the short ones, so without the others all jobs would look short at first.
        """
        order = self._state.policies.order
        if not isinstance(order, LearnsServices) or not order.learns or not is_news(self._past, past):
            return False
        self._past = past
        services = [job.service_gpu_seconds(now_seconds) for job in self._state.jobs.values()]
        so_far = past.with_stopped(service for service in services if service > 0)
        self._state.set_order(cast(OrderPolicy, order.informed(so_far)))
        return True

    def usable_gpus(self) -> Iterator[GPU]:
        """Yield the healthy GPUs of nodes where jobs may start."""
        allocations = self._state.allocations
        return (allocations.gpus[number] for number in allocations.usable)

    def decide(
        self, now_seconds: float, max_starts: float = math.inf, max_preemptors: int = MAX_PREEMPTORS
    ) -> Decision:
        """Run one cycle, and return what changes.

        Args:
            now_seconds: the moment.
            max_starts: the most jobs that may start; if more could, the decision is truncated and the next is due at once.
            max_preemptors: the most jobs for which others are preempted.

        Raises:
            InvalidPlan: a policy broke an invariant (see :mod:`laneway.scheduling.validation`).
        """
        state = self._state
        self._decided_seconds = now_seconds
        state.refresh(now_seconds)
        if self._worker_counts is not None:
            self._worker_counts.refresh(state, now_seconds)
            state.refresh(now_seconds)
        if self._rounds is not None:
            self._rounds.refresh(state, now_seconds)
            state.refresh(now_seconds)
        state.allocations.views.drop_unused()
        decision = run_cycle(Session(state, self._cache, now_seconds, max_starts, max_preemptors))
        decision.promotions = sorted(state.ranking.promoted)
        state.truncated = decision.truncated
        check_decision(self._holdings, decision)
        return decision

    def plan(self, now_seconds: float, max_starts: float = math.inf) -> Plan:
        """Run one cycle, and return the plan for every job with reasons; arguments as for :meth:`decide`.

        Raises:
            InvalidPlan: a policy broke an invariant.
        """
        decision = self.decide(now_seconds, max_starts)
        state, jobs, ranking = self._state, self._state.jobs, self._state.ranking
        state.refresh_drifting(jobs, now_seconds)
        order = self._order(jobs)
        waiting = waiting_reasons(order, state, self._cache, decision, {})
        changes = (
            waiting.keys() | decision.starts.keys() | decision.preemptions.keys() | set(decision.resumes)
        )
        return Plan(
            starts=decision.starts,
            preemptions=decision.preemptions,
            resumes=tuple(decision.resumes),
            rescales=decision.rescales,
            allotments=self._allotments(order, decision),
            keeps=tuple(key for key in order if key not in changes and not jobs[key].state.is_releasing),
            waiting=waiting,
            order=order,
            queues={key: max(0, ranking.ranks[key].queue) for key in order},
            promotions=tuple(key for key in order if key in ranking.promoted),
            truncated=decision.truncated,
        )

    def explain(
        self,
        decision: Decision,
        now_seconds: float,
        before: Mapping[str, WaitingReason] = MappingProxyType({}),
        *,
        again: Collection[str] | None = None,
    ) -> Mapping[str, WaitingReason]:
        """Return why each waiting job waits, in order, with its position.

        It costs time for every waiting job, unlike a decision. Ask before anything else is observed.

        Args:
            decision: the last result of :meth:`decide`.
            now_seconds: the moment of that decision.
            before: the last result. A reason that is still the same is the same object in both.
            again: the jobs whose reasons are worked out again, besides those that the decision gives; of the others only positions
                change, which costs a tenth. None: all are worked out.
        """
        state = self._state
        state.refresh_drifting(state.jobs, now_seconds)
        return waiting_reasons(waiting_order(state, decision), state, self._cache, decision, before, again)

    def allotments(self, decision: Decision) -> Mapping[str, tuple[WorkerAllotment, ...]]:
        """Return the CPUs and the memory of each worker that trains or starts; empty without an allocation policy.

        It costs time for every job that holds GPUs. Ask before anything else is observed.

        Args:
            decision: the last result of :meth:`decide`.
        """
        state = self._state
        if state.policies.allocation is None:
            return {}
        holders = state.allocations.of_job.keys() & state.jobs.keys()
        return self._allotments(self._order(holders | decision.starts.keys()), decision)

    def take_failures(self) -> tuple[PolicyFailure, ...]:
        """Return the policies that failed since the last call.

        A failed elastic policy changes no job's number of workers; a failed allocation policy allots nothing, so workers have what they
        request; where the targets of a round fail, the last ones hold.
        """
        return self._state.take_failures()

    def requeued(self) -> Mapping[str, int]:
        """Return the jobs that are new or have changed queues since the last call, each with its queue."""
        ranking = self._state.ranking
        keys, ranking.requeued = ranking.requeued, set()
        return {key: max(0, ranking.ranks[key].queue) for key in keys}

    def queue(self, key: str) -> int | None:
        """Return the queue of a job; None where the scheduler does not know the job."""
        rank = self._state.ranking.ranks.get(key)
        return None if rank is None else max(0, rank.queue)

    def start_estimates(
        self,
        waiting: Mapping[str, WaitingReason],
        keys: Collection[str],
        now_seconds: float,
        *,
        trust_durations: bool = True,
    ) -> Mapping[str, StartEstimate]:
        """Return which jobs are ahead of some waiting jobs, and when these may start.

        Args:
            waiting: the last result of :meth:`explain`, or its part of :meth:`plan`; nothing may have been observed since.
            keys: the waiting jobs.
            now_seconds: the moment.
            trust_durations: whether expected run times count.
        """
        return start_estimates(self._state, waiting, keys, now_seconds, trust_durations=trust_durations)

    def suggestions(self, key: str) -> tuple[str, ...]:
        """Return changes of a waiting job's spec, each of which would let it start beside the jobs of the last decision.

        Nothing may have been observed since that decision.
        """
        state = self._state
        job = state.as_scheduled(key)
        if job.state is not JobState.WAITING or job.suspended:
            return ()
        found = suggestions(job, state.capacity(IDLE), state.policies.placement, self._may_start)
        return tuple(each.text for each in found)

    def next_decision_seconds(self, now_seconds: float) -> float | None:
        """Return when time alone may change the last decision, if nothing is observed before; None: never.

        That is when a job changes its queue, when a running job becomes preemptible, when jobs that share GPUs may be
        separated, when a job may be rescaled again, or when the elastic policy is due.
        """
        state = self._state
        state.refresh(now_seconds)
        due_seconds = min(
            state.next_change_seconds(now_seconds),
            state.measured.due_seconds,
            rescale_due_seconds(state, now_seconds),
        )
        if self._worker_counts is not None:
            due_seconds = min(due_seconds, self._worker_counts.next_seconds())
        if self._rounds is not None:
            due_seconds = min(due_seconds, state.round.next_seconds())
        return None if math.isinf(due_seconds) else due_seconds

    def _allotments(
        self, order: Sequence[str], decision: Decision
    ) -> Mapping[str, tuple[WorkerAllotment, ...]]:
        """Return the allotments; none where the policy fails."""
        try:
            return allotments(self._state, order, decision)
        except Exception as error:
            policy = self._state.policies.allocation
            self._state.note_failure(PolicyFailure.of("allocation", policy, error))
            return {}

    def _may_start(self, job: Job) -> bool:
        """Whether a waiting job, whose demand may be changed, is admitted and not behind a job that blocks its GPUs."""
        state = self._state
        if not_admitted(state, job, self._decided_seconds) is not None:
            return False
        blocker = self._cache.blocker(gpu_class for gpu_class, _ in state.capacity(IDLE).choices(job))
        return blocker is None or state.ranking.sort_keys[job.key] <= blocker

    def _order(self, keys: Iterable[str]) -> tuple[str, ...]:
        sort_keys = self._state.ranking.sort_keys
        return tuple(sort_key[-1] for sort_key in sorted(sort_keys[key] for key in keys))
